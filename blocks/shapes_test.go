package blocks

import (
	"strings"
	"testing"

	"recalld/memory"
)

// A shape is a fixture that the policy has to get right: within is kept in one
// block, apart are two texts that different blocks hold.
type shape struct {
	name   string
	text   string
	within []string
	apart  [2]string
}

// Shapes that occur in real records, in our own words.
//
// BR-021, BR-013, BR-022
func TestShapes(t *testing.T) {
	url := "https://example.org/" + strings.Repeat("path.part/", 40) + "?q=a.b!c"
	for _, s := range []shape{
		{"negation after a condition, en", "When the lamp is red, the door must not be opened. Call the guard.", []string{"When the lamp", "not be opened"}, [2]string{"lamp", "guard"}},
		{"negation after a condition, ja", "灯りが赤いときは、扉を開けてはならない。守衛を呼ぶ。", []string{"赤いとき", "ならない"}, [2]string{"扉", "守衛"}},
		{"negation after a condition, zh", "红灯亮起时，不得打开门。请呼叫门卫。", []string{"亮起时", "不得"}, [2]string{"红灯", "门卫"}},
		{"condition by itself, ja", "灯りが赤い場合。扉を開けない。守衛を呼ぶ。", []string{"赤い場合", "開けない"}, [2]string{"扉", "守衛"}},
		{"condition by itself, zh", "红灯亮着的话。不要开门。呼叫门卫。", []string{"的话", "不要"}, [2]string{"红灯", "门卫"}},
		{"exception by itself, en", "Open the door. Unless the lamp is red. Then call.", []string{"Open", "Unless the lamp is red."}, [2]string{"Open", "Then call"}},
		{"exception with its own main clause, en", "Open the door. Unless the lamp is red, nobody minds.", nil, [2]string{"Open", "Unless"}},
		{"exception by itself, zh", "可以开门。除非红灯亮着。然后呼叫。", []string{"可以", "除非"}, [2]string{"可以", "然后"}},
		{"denial by itself, ja", "故障したと聞いた。わけではない。静かだった。", []string{"聞いた", "わけではない"}, [2]string{"故障", "静か"}},
		{"conditions in a list, en", "Do not open the door when:\n- the lamp is red. It blinks.\n- the guard is out\n\nLater is fine.", []string{"Do not open", "lamp is red", "guard is out"}, [2]string{"Do not", "Later"}},
		{"conditions in a list, ja", "次の場合は開けない：\n・灯りが赤い。\n・守衛がいない\nあとは自由に。", []string{"開けない", "赤い", "いない"}, [2]string{"次の場合", "あとは"}},
		{"conditions in a list, zh", "以下情况不要开门：\n1. 红灯亮着。\n2. 门卫不在\n\n其余随意。", []string{"不要开门", "红灯", "门卫不在"}, [2]string{"以下", "其余"}},
		{"plain list, en", "Things to buy:\n- rope\n- lamps", nil, [2]string{"rope", "lamps"}},
		{"predicate after a quotation, ja", "彼女は「もう行く。待つな。」と書いた。", []string{"彼女は", "書いた"}, [2]string{}},
		{"predicate after a quotation, en", "The sign says \"Keep out. Dogs bite.\" in red. Go.", []string{"sign says", "in red"}, [2]string{"sign", "Go."}},
		{"predicate after a quotation, zh", "他写道：“别来。太晚了。”这是最后一句。", []string{"他写道", "太晚了"}, [2]string{}},
		{"correction in a later sentence, en", "The key hangs left. Correction: it hangs right.", nil, [2]string{"left", "Correction"}},
		{"correction in a later sentence, ja", "鍵は左にある。訂正、右にある。", nil, [2]string{"左", "訂正"}},
		{"correction in a later sentence, zh", "钥匙挂在左边。更正：挂在右边。", nil, [2]string{"左边", "更正"}},
		{"omitted subject, en", "Went to the depot. Found it closed, so came home.", []string{"Found it closed", "came home"}, [2]string{"depot", "home"}},
		{"omitted subject, ja", "倉庫へ行った。閉まっていたので、帰った。", []string{"閉まって", "帰った"}, [2]string{"倉庫", "帰った"}},
		{"omitted subject, zh", "去了仓库。门关着，就回来了。", []string{"门关着", "回来了"}, [2]string{"仓库", "回来"}},
		{"mixed scripts, en", "The API 「v2.1」 returns 422 for 空の本文. Retry は不要。Done.", []string{"API", "空の本文"}, [2]string{"API", "Retry"}},
		{"mixed scripts, ja", "Node.jsのv20.1でbuildが失敗する（e.g. OOM）。CIはOK! 次はdeploy。", []string{"Node.js", "e.g. OOM"}, [2]string{"Node", "deploy"}},
		{"mixed scripts, zh", "请用Go 1.26编译，e.g. amd64。然后run一下！", []string{"Go 1.26", "amd64"}, [2]string{"编译", "run"}},
		{"code fence, en", "Use this.\n```py\nif a. b:\n\n    # stop! now\n```\nIt works.", []string{"if a. b", "stop! now"}, [2]string{"Use this", "works"}},
		{"code fence, ja", "次を使う。\n```\n# 止める。終わり。\nrun()\n```\n動いた。", []string{"止める", "run()"}, [2]string{"使う", "動いた"}},
		{"code fence, zh", "运行：\n~~~\n# 停。完。\ngo()\n~~~\n成功了。", []string{"停。完", "go()"}, [2]string{"运行", "成功"}},
		{"long URL, en", "It is at " + url + " for now. Moved soon.", []string{url}, [2]string{"for now", "Moved"}},
		{"long URL, ja", "場所は" + url + "である。移す予定。", []string{url}, [2]string{"である", "移す"}},
		{"long URL, zh", "地址是" + url + "。即将迁移。", []string{url}, [2]string{"地址", "迁移"}},
	} {
		all := mustSplit(t, s.text)
		for _, b := range all {
			if b.Forced {
				t.Errorf("%s: forced at %d", s.name, b.End)
			}
		}
		if s.within != nil && !inOne(s.text, all, s.within...) {
			t.Errorf("%s: no block holds all of %q:\n%s", s.name, s.within, show(s.text, all))
		}
		if s.apart[0] != "" && (inOne(s.text, all, s.apart[:]...) || !inOne(s.text, all, s.apart[0]) || !inOne(s.text, all, s.apart[1])) {
			t.Errorf("%s: %q are not in two blocks:\n%s", s.name, s.apart, show(s.text, all))
		}
	}
}

// inOne reports whether one block holds all the words.
func inOne(text string, all []Block, words ...string) bool {
	for _, b := range all {
		part, _ := b.Slice(text)
		held := true
		for _, w := range words {
			held = held && strings.Contains(part, w)
		}
		if held {
			return true
		}
	}
	return false
}

// A clause that a node's end divides is two blocks, not marked as forced, and is
// quoted whole.
//
// BR-020, BR-021, BR-019, BR-075, BR-076
func TestClauseAcrossANode(t *testing.T) {
	for _, c := range []struct {
		text  string
		cut   int
		whole memory.Span
	}{
		{"It rained. When the lamp is red, the door must not be opened. Call.", 33, span(11, 62)},
		{"雨だった。灯りが赤いときは、扉を開けてはならない。呼ぶ。", 14, span(5, 25)},
		{"下雨了。红灯亮起时，不得打开门。呼叫。", 10, span(4, 16)},
	} {
		n := memory.Len(c.text)
		all := mustSplit(t, c.text, span(0, c.cut), span(c.cut, n))
		if len(all) != 4 || all[1].End != c.cut || all[1].Forced || !all[2].Node || all[1].Node || !all[0].Node {
			t.Errorf("blocks %v", all)
			continue
		}
		for _, hit := range []int{1, 2} {
			q := Context(c.text, all, hit, QuoteLimit)
			if q.Span != c.whole || !q.Complete {
				t.Errorf("hit %d is quoted as %v, expected %v", hit, q, c.whole)
			}
		}
	}
}
