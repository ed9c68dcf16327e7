package coordinator

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"recalld/memory"
)

// bare is a bench whose embedding settings are the stored ones alone.
func bare(t *testing.T) *bench {
	t.Helper()
	b := open(t, nil)
	b.cfg.Overrides = nil
	if err := b.store.SetSetting(t.Context(), "embedding.backend", "hash"); err != nil {
		t.Fatal(err)
	}
	b.restart()
	return b
}

// Issue, Bad input: a setting after which the next start would find no model is
// refused with the one that has to be set first, and changes nothing.
func TestSettingThatOpensNoModel(t *testing.T) {
	b := bare(t)
	t.Setenv("RECALLD_TEST_NO_SUCH_KEY", "")
	for _, step := range []struct{ name, value, refusal string }{
		{"embedding.backend", "openai", "set embedding.url first"},
		{"embedding.url", "http://127.0.0.1:1", ""},
		{"embedding.backend", "openai", "set embedding.name first"},
		{"embedding.name", "m", ""},
		{"embedding.backend", "openai", ""},
		{"embedding.url", "", "embedding.url: is empty"},
		{"embedding.url", "ftp://127.0.0.1:1", "embedding.url: has the scheme"},
		{"embedding.key_env", "RECALLD_TEST_NO_SUCH_KEY", "embedding.key_env: names"},
		{"embedding.batch_size", "100", ""},
		{"embedding.backend", "embed", "set embedding.batch_size first"},
		{"embedding.backend", "", ""},
		{"embedding.url", "", ""},
		{"previous.backend", "embed", "set previous.url first"},
		{"previous.url", "http://127.0.0.1:1", ""},
		{"previous.backend", "embed", ""},
		{"recall.depth", "50", ""},
	} {
		was, err := b.store.Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.SetSetting(t.Context(), step.name, step.value)
		switch {
		case step.refusal == "" && err != nil:
			t.Errorf("%s=%q: %v", step.name, step.value, err)
		case step.refusal == "":
		case !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), step.refusal):
			t.Errorf("%s=%q: %v, want %q", step.name, step.value, err, step.refusal)
		default:
			if is, _ := b.store.Settings(t.Context()); is[step.name] != was[step.name] {
				t.Errorf("%s was refused and stored", step.name)
			}
		}
	}
}

// Issue, Bad input: settings that open no model, however they came into the
// file, leave words, the settings and the advisory; they are mended one by one.
func TestStartWithoutTheStoredModel(t *testing.T) {
	for _, group := range []string{"embedding", "previous"} {
		t.Run(group, func(t *testing.T) {
			b := bare(t)
			ref := b.put("mia", say("The staging database moved to db-7."))[0]
			if err := b.store.SetSetting(t.Context(), group+".backend", "openai"); err != nil {
				t.Fatal(err)
			}
			b.restart()
			a := b.recall(RecallRequest{Agent: "mia", Query: "staging database"})
			if !slices.Equal(refsIn(a.Rows), []string{ref}) {
				t.Errorf("rows %v", refsIn(a.Rows))
			}
			if a.Advisory == nil || a.Advisory.Severity != "fault" || !strings.Contains(a.Advisory.Evidence, group+".url: is empty") {
				t.Errorf("advisory %+v", a.Advisory)
			}
			degraded := slices.ContainsFunc(a.Degraded, func(d Degradation) bool { return d.Reason == reasonModelUnopened })
			if degraded != (group == "embedding") {
				t.Errorf("degraded %+v", a.Degraded)
			}
			second := b.put("mia", say("The review is on Wednesday."))[0]
			for _, step := range [][2]string{{group + ".name", "m"}, {group + ".url", "http://127.0.0.1:1"}, {group + ".backend", ""}, {"embedding.backend", "hash"}} {
				if _, err := b.SetSetting(t.Context(), step[0], step[1]); err != nil {
					t.Errorf("%s: %v", step[0], err)
				}
			}
			b.restart()
			if err := b.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			a = b.recall(RecallRequest{Agent: "mia", Query: "on which day is the review", Gate: "off"})
			if a.Advisory != nil || len(a.Degraded) != 0 || !a.Coverage.Full || a.Rows[0].Ref != second {
				t.Errorf("after mending: %s", encode(t, a))
			}
		})
	}
}

// Issue, Bad input: values given for this run alone are refused, not worked
// around.
func TestOverridesThatOpenNoModel(t *testing.T) {
	b := open(t, nil)
	b.Coordinator.Close()
	b.cfg.Overrides = map[string]string{"embedding.backend": "openai"}
	c, err := New(t.Context(), b.cfg)
	if !errors.Is(err, memory.ErrInvalid) || !strings.Contains(err.Error(), "embedding.url: is empty") {
		t.Errorf("%v", err)
	}
	if c != nil {
		c.Close()
	}
}
