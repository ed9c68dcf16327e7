package blocks

import (
	"unicode"
	"unicode/utf8"
)

// The closed lists of words that the splitter and the quotation rules go by, in
// English, Japanese and Chinese (BR-013, BR-077). A change of any list but
// [qualifiers] moves boundaries and needs a new [PolicyVersion]. English words are
// lower-case and compared without case, as whole words.

// A full stop after these, before white space, ends no sentence for certain.
var abbreviations = []string{
	"a.k.a", "a.m", "al", "approx", "apt", "assn", "ave", "bldg", "blvd", "ca", "capt", "cf", "cmdr", "co", "col", "corp", "cpl",
	"dept", "dr", "e.g", "ed", "eds", "eg", "esp", "est", "etc", "ext", "ft", "gen", "gov", "hon", "hr", "hrs", "i.e", "ie", "inc",
	"incl", "jr", "lt", "ltd", "max", "messrs", "min", "misc", "mr", "mrs", "ms", "mt", "mx", "p.m", "p.s", "ph.d", "pres", "prof",
	"rep", "rev", "sen", "sgt", "sq", "sr", "st", "supt", "tel", "temp", "univ", "vs", "w.r.t",
}

// A full stop after these ends no sentence when a digit follows.
var numbered = []string{
	"apr", "art", "aug", "ch", "chap", "dec", "eq", "feb", "fig", "figs", "jan", "jul", "jun", "mar", "no", "nos", "nov", "oct",
	"p", "para", "pp", "pt", "r", "ref", "sec", "sep", "sept", "v", "ver", "vol",
}

// What follows a closing mark and continues the sentence, of which the enclosed
// words are then a part.
var continuations = []string{
	"と", "って", "という", "とか", "は", "を", "が", "に", "へ", "で", "の", "も", "や", "から", "まで", "より", "だ", "な", "など",
	"的", "地", "这", "這", "那", "等",
}

// What follows ！ and ？ and reports them, with a verb of saying.
var reporting = []string{"と", "って"}

// Verbs of saying that follow a quotation within a few words.
var speech = []string{
	"said", "says", "asked", "asks", "replied", "answered", "told", "wrote", "writes", "added", "insisted", "warned", "explained",
	"言", "述べ", "答え", "叫", "尋ね", "書い", "伝え", "思", "聞", "考え",
	"说", "說", "道", "问", "問", "答", "喊", "讲", "講", "写", "寫", "表示",
}

// A sentence that starts with one of these and has no comma is no sentence: it is
// the condition or the exception of the one before.
var fragments = []string{
	"unless", "except", "only if", "only when", "only while", "not if", "not when", "not while", "not until", "even if",
	"provided", "as long as", "so long as", "if and only if", "without exception",
	"わけではない", "わけでもない", "というわけ", "とは限らない", "のではない", "とは言えない", "を除く", "除いて",
	"除非", "除了", "除外", "只要", "只有",
}

// A sentence that ends with one of these states a condition whose consequence is
// the next.
var conditions = []string{
	"場合", "場合は", "場合には", "場合のみ", "とき", "ときは", "時は", "際は", "なら", "ならば", "れば", "たら", "限り", "限りは",
	"的话", "的話", "的时候", "的時候", "情况下", "情況下", "的前提下",
}

// A line that ends with a colon and holds one of these governs the list below it:
// an item without the line would stand without its condition or its negation.
var governors = []string{
	"not", "never", "no", "none", "nothing", "don't", "don’t", "doesn't", "doesn’t", "can't", "can’t", "cannot", "won't", "won’t",
	"mustn't", "mustn’t", "shouldn't", "shouldn’t", "isn't", "isn’t", "aren't", "aren’t", "without", "avoid", "forbidden",
	"prohibited", "unless", "except", "excluding", "if", "when", "while", "until", "only", "provided",
	"ない", "ません", "禁止", "除く", "除き", "除外", "以外", "場合", "とき", "際", "限り", "限る", "のみ", "だけ", "不可",
	"不", "勿", "禁", "别", "別", "除", "如果", "若", "当", "當", "仅", "僅", "只",
}

// A block that starts with one of these limits, corrects or withdraws what stands
// before it (BR-077, BR-078).
var qualifiers = []string{
	"but", "however", "although", "though", "even though", "even so", "yet", "still", "nevertheless", "nonetheless", "except",
	"exception", "exceptions", "unless", "only", "not", "no longer", "instead", "rather", "otherwise", "that said", "having said that",
	"on the other hand", "then again", "in contrast", "by contrast", "on the contrary", "in that case", "if so", "if not", "or else",
	"provided", "with the exception", "correction", "corrected", "caveat", "limitation", "update", "edit", "erratum", "actually",
	"scratch that", "never mind", "strike that",
	"ただし", "但し", "ただ、", "ただ，", "もっとも、", "もっとも，", "尤も", "しかし", "だが", "ですが", "けれど", "けど", "でも、", "でも，", "が、", "が，",
	"ところが", "とはいえ", "とは言え", "とはいっても", "それでも", "一方", "逆に", "反対に", "代わりに", "かわりに", "例外", "むしろ", "さもないと",
	"さもなければ", "でなければ", "そうでなければ", "その場合", "この場合", "それ以外", "訂正", "修正：", "追記", "撤回", "取り消し", "正しくは", "実際には",
	"実は", "いや、", "いや，", "否、", "除く",
	"但", "不过", "不過", "然而", "可是", "只是", "除非", "除了", "除此", "否则", "否則", "不然", "要不然", "仅", "僅", "只有", "只限", "却", "卻",
	"反之", "相反", "其实", "其實", "事实上", "事實上", "更正", "订正", "另一方面", "尽管如此", "儘管如此", "即便如此", "虽然", "雖然", "而是",
	"这种情况", "這種情況", "在这种情况", "在這種情況", "例外",
}

// starts returns how many bytes of text the first cue that it starts with takes, 0
// when it starts with none.
func starts(text string, cues []string) int {
	for _, cue := range cues {
		if hasPrefix(text, cue) && (cue[0] >= utf8.RuneSelf || !letterAt(text, len(cue))) {
			return len(cue)
		}
	}
	return 0
}

// hasPrefix compares ASCII without case; cue is lower-case.
func hasPrefix(text, cue string) bool {
	if len(text) < len(cue) {
		return false
	}
	for i := range len(cue) {
		if lower(text[i]) != cue[i] {
			return false
		}
	}
	return true
}

// ends reports whether text ends with one of the cues.
func ends(text string, cues []string) bool {
	for _, cue := range cues {
		if len(text) >= len(cue) && text[len(text)-len(cue):] == cue {
			return true
		}
	}
	return false
}

// holds reports whether one of the cues stands in the text, English ones as whole
// words.
func holds(text string, cues []string) bool {
	word := true // a word may start here
	for i := 0; i < len(text); {
		if text[i] >= utf8.RuneSelf || word {
			if starts(text[i:], cues) > 0 {
				return true
			}
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		word = !letterAt(text, i)
		i += size
	}
	return false
}

// equals reports whether a word is one of the cues.
func equals(word string, cues []string) bool {
	for _, cue := range cues {
		if len(word) == len(cue) && hasPrefix(word, cue) {
			return true
		}
	}
	return false
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// letterAt reports whether the code point at byte i is a letter or digit of a
// script with spaces between words.
func letterAt(text string, i int) bool {
	if i >= len(text) {
		return false
	}
	if b := text[i]; b < utf8.RuneSelf {
		return b >= '0' && b <= '9' || lower(b) >= 'a' && lower(b) <= 'z'
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !eastAsian(r)
}
