package guard

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"recalld/access"
	"recalld/coordinator"
	"recalld/ingest"
)

// callAll calls every method of the service with zero values and returns what
// each answered, a panic of the service below as errReached.
func callAll(ctx context.Context, s coordinator.Service) map[string]error {
	answers := map[string]error{}
	v, contract := reflect.ValueOf(s), reflect.TypeFor[coordinator.Service]()
	for i := range contract.NumMethod() {
		m := contract.Method(i)
		args := []reflect.Value{reflect.ValueOf(ctx)}
		for j := 1; j < m.Type.NumIn(); j++ {
			args = append(args, reflect.Zero(m.Type.In(j)))
		}
		answers[m.Name] = func() (err error) {
			defer func() {
				if recover() != nil {
					err = errReached
				}
			}()
			out := v.MethodByName(m.Name).Call(args)
			err, _ = out[len(out)-1].Interface().(error)
			return err
		}()
	}
	return answers
}

var errReached = errors.New("the call reached the service")

// unreachable is a service whose every method panics.
type unreachable struct{ coordinator.Service }

// Every method of the service has a rule and asks it: a call of nobody, and of a
// client without a grant, reaches nothing. With every grant each method is
// reached, so that the test sees a method that is refused for another reason.
func TestEveryMethodIsGuarded(t *testing.T) {
	s := Service(unreachable{}, nil)
	for name, err := range callAll(t.Context(), s) {
		if _, ok := rules()[name]; !ok {
			t.Errorf("%s has no rule", name)
		}
		if !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
	for name, err := range callAll(WithClient(t.Context(), access.NewClient("c", access.None)), s) {
		if name == "OperatingContext" {
			continue // the operator tells it to every client
		}
		if !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s of a client without a grant: %v", name, err)
		}
	}
	for name, err := range callAll(WithClient(t.Context(), access.NewClient("c", access.ReadWrite)), s) {
		if name == "Backup" {
			if err == nil || !strings.Contains(err.Error(), "--files") {
				t.Errorf("a backup without folders: %v", err)
			}
			continue
		}
		if !errors.Is(err, errReached) {
			t.Errorf("%s of a client with every grant: %v", name, err)
		}
	}
}

// A method without a rule is denied to everybody.
//
// RR-449
func TestUnknownMethodIsDenied(t *testing.T) {
	ctx := WithClient(t.Context(), access.NewClient("c", access.ReadWrite))
	if err := allow(ctx, rules(), "Destroy", "mia"); !errors.Is(err, access.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

// A denial says who asked for what on whose memory, and what that needs.
//
// RR-449
func TestDenialSaysWhoAndWhat(t *testing.T) {
	s, ctx := Service(unreachable{}, nil), WithClient(t.Context(), granted(t, `{"mia": "read", "*": "read"}`))
	_, store := s.Store(ctx, coordinator.StoreRequest{Agent: "蓮"})
	_, setting := s.SetSetting(ctx, "fusion.mode", "rrf")
	for _, test := range []struct {
		err  error
		want access.Denial
	}{
		{store, access.Denial{Client: "tester", Call: "Store", Agent: "蓮", Need: access.ReadWrite}},
		{setting, access.Denial{Client: "tester", Call: "SetSetting", Agent: "*", Need: access.ReadWrite}},
		{s.Backup(context.Background(), "x", nil), access.Denial{Call: "Backup"}},
	} {
		var got *access.Denial
		if !errors.As(test.err, &got) || *got != test.want || !strings.Contains(test.err.Error(), ";") {
			t.Errorf("got %v, want %+v", test.err, test.want)
		}
	}
}

// Reading never lets a client write.
func TestReadersDoNotWrite(t *testing.T) {
	writes := []string{"Store", "Update", "Delete", "Lock", "PutProfile", "Merge", "Pause", "Calibrate", "SetSetting", "ChangeModel", "ChangeIndex", "Vacuum", "Backup"}
	answers := callAll(WithClient(t.Context(), access.NewClient("c", access.Read)), Service(unreachable{}, nil))
	for _, name := range writes {
		if !errors.Is(answers[name], access.ErrDenied) {
			t.Errorf("%s: %v", name, answers[name])
		}
		delete(answers, name)
	}
	for name, err := range answers {
		if !errors.Is(err, errReached) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fix := coordinator.DoctorRequest{Fix: true}
	if _, err := Service(unreachable{}, nil).Doctor(WithClient(t.Context(), access.NewClient("c", access.Read)), fix); !errors.Is(err, access.ErrDenied) {
		t.Errorf("doctor --fix: %v", err)
	}
}

// What a record brings along is not one agent's: numbers are counted in one row
// for all, and a vector may register a model. It needs the server too.
func TestKeptItemsNeedTheServer(t *testing.T) {
	for grants, want := range map[string]error{
		`{"mia": "read-write"}`:              access.ErrDenied,
		`{"mia": "read-write", "*": "read"}`: access.ErrDenied,
		`{"*": "read-write"}`:                errReached,
		`{"mia": "read", "*": "read-write"}`: access.ErrDenied,
	} {
		store := func(items ...coordinator.StoreItem) (err error) {
			defer func() {
				if recover() != nil {
					err = errReached
				}
			}()
			_, err = Service(unreachable{}, nil).Store(WithClient(t.Context(), granted(t, grants)), coordinator.StoreRequest{Agent: "mia", Items: items})
			return err
		}
		plain := coordinator.StoreItem{Content: "会議は木曜。"}
		kept := coordinator.StoreItem{Content: "会议改到星期三。", Kept: &ingest.Kept{ID: 1 << 36}}
		if err := store(plain, kept); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", grants, err, want)
		}
		if err := store(plain); strings.HasPrefix(grants, `{"mia": "read-write"`) && !errors.Is(err, errReached) {
			t.Errorf("%s, nothing brought along: %v", grants, err)
		}
	}
}

// Merging needs the source and the target; moving writes at the source.
func TestMergeNeedsBothAgents(t *testing.T) {
	s := Service(unreachable{}, nil)
	for _, test := range []struct {
		source, target, mode string
		allowed              bool
	}{
		{"mia", "own", "", false}, // no grant on mia
		{"own", "mia", "", false},
		{"read", "own", "", true},
		{"read", "own", "copy", true},
		{"read", "own", "move", false},
		{"read", "own", "MOVE", false},
		{"own", "read", "copy", false},
		{"own", "own", "move", true},
	} {
		_, err := func() (_ any, err error) {
			defer func() {
				if recover() != nil {
					err = nil
				}
			}()
			return s.Merge(WithClient(t.Context(), granted(t, `{"own": "read-write", "read": "read"}`)), coordinator.MergeRequest{Source: test.source, Target: test.target, Mode: test.mode})
		}()
		if errors.Is(err, access.ErrDenied) == test.allowed {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
