package lexical

import (
	"strconv"
	"time"
	"unicode/utf8"

	"recalld/memory"
)

// dateMark is the first byte of every date word. Control characters separate
// words, so that no word of a text begins with it.
const dateMark = 0x01

// IsDateWord reports whether a term is a date word and not a word of the text.
func IsDateWord(term string) bool { return term != "" && term[0] == dateMark }

// date is a calendar date of which any part may be unknown, which is 0.
type date struct{ year, month, day int }

// AppendTime appends the date words of a record's own time in the zone of its
// writer: year, month, day, the day of the year as one word, and weekday. An
// unknown time has none.
func (a *Analyser) AppendTime(dst []TermID, t memory.Time) []TermID {
	if t.IsZero() {
		return dst
	}
	s := t.Std()
	a.out = dst
	a.emitDate(date{s.Year(), int(s.Month()), s.Day()})
	a.emitDatePart('w', int(s.Weekday()))
	dst, a.out = a.out, nil
	return dst
}

// emitDate emits the words of the parts that are known.
func (a *Analyser) emitDate(d date) {
	if d.year > 0 {
		a.emitDatePart('y', d.year)
	}
	if d.month > 0 {
		a.emitDatePart('m', d.month)
	}
	if d.day > 0 {
		a.emitDatePart('d', d.day)
	}
	if d.month > 0 && d.day > 0 {
		a.emitDatePart('a', d.month*100+d.day)
	}
}

func (a *Analyser) emitDatePart(part byte, n int) {
	a.key = append(a.key[:0], dateMark, part)
	a.key = strconv.AppendInt(a.key, int64(n), 10)
	a.emit(a.key)
}

// atomKind says what a chunk can be in a date.
type atomKind uint8

const (
	atomNone    atomKind = iota
	atomJoin             // "of", "the", a comma: keeps a date together
	atomNumber           // 1 to 31
	atomOrdinal          // 30th
	atomYear             // 1900 to 2099
	atomMonth            // November
	atomWeak             // May, Mar, Sep: a month beside a number, or capitalised inside a sentence
	atomWeekday          // Monday
	atomWhole            // 2026-11-30
)

// dateAtom is what one chunk contributes to a date.
type dateAtom struct {
	kind atomKind
	date date // year, month, or in day the number or weekday
	last bool // the punctuation behind it ends the date
}

// dateReader collects the atoms of one date across chunks.
type dateReader struct {
	atoms [8]dateAtom
	n     int
	start bool // the next chunk begins a sentence
}

func (r *dateReader) reset() { r.n, r.start = 0, true }

// take adds a chunk to the date being read, or ends it.
func (r *dateReader) take(a *Analyser, c chunk) {
	atom := c.date
	start := r.start
	r.start = c.stop
	switch {
	case atom.kind == atomNone:
		r.flush(a)
		return
	case atom.kind == atomJoin:
		if r.n == 0 {
			return
		}
	case atom.kind == atomWeak && start:
		atom.date.year = -1 // a capital letter at the start of a sentence proves nothing
	}
	if r.n == len(r.atoms) {
		r.flush(a)
	}
	r.atoms[r.n] = atom
	r.n++
	if atom.last {
		r.flush(a)
	}
}

// flush emits the date words of the atoms read so far and forgets them.
func (r *dateReader) flush(a *Analyser) {
	if r.n == 0 {
		return
	}
	var kept [8]dateAtom
	n := 0
	for _, atom := range r.atoms[:r.n] {
		if atom.kind != atomJoin {
			kept[n] = atom
			n++
		}
	}
	r.n = 0
	for i := 0; i < n; {
		i += a.readDate(kept[i:n])
	}
}

// readDate emits the date that the atoms begin with and returns how many of
// them it is made of.
func (a *Analyser) readDate(atoms []dateAtom) int {
	kind := func(i int) atomKind {
		if i < len(atoms) {
			return atoms[i].kind
		}
		return atomNone
	}
	isDay := func(i int) bool { return kind(i) == atomNumber || kind(i) == atomOrdinal }
	isMonth := func(i int) bool { return kind(i) == atomMonth || kind(i) == atomWeak }
	var d date
	n := 0
	switch {
	case kind(0) == atomWhole:
		a.emitDate(atoms[0].date)
		return 1
	case kind(0) == atomWeekday:
		a.emitDatePart('w', atoms[0].date.day)
		return 1
	case isMonth(0):
		d.month = atoms[0].date.month
		n = 1
		if isDay(n) {
			d.day = atoms[n].date.day
			n++
		}
		if kind(n) == atomYear {
			d.year = atoms[n].date.year
			n++
		}
		if n == 1 && kind(0) == atomWeak && atoms[0].date.year < 0 {
			return 1
		}
	case isDay(0) && isMonth(1):
		d.day, d.month = atoms[0].date.day, atoms[1].date.month
		n = 2
		if kind(n) == atomYear {
			d.year = atoms[n].date.year
			n++
		}
	case kind(0) == atomYear:
		d.year = atoms[0].date.year
		n = 1
		if isMonth(1) {
			d.month = atoms[1].date.month
			n = 2
			if isDay(2) {
				d.day = atoms[2].date.day
				n = 3
			}
		}
	case kind(0) == atomOrdinal:
		d.day = atoms[0].date.day
		n = 1
	default:
		return 1
	}
	a.emitDate(d)
	return n
}

// dateAtomOf reads a chunk without its edge punctuation; tail is the
// punctuation that stood behind it.
func dateAtomOf(core, tail string) dateAtom {
	if core == "" {
		if tail == "," {
			return dateAtom{kind: atomJoin}
		}
		return dateAtom{}
	}
	if len(core) > len("2026-11-30T09:00:00.000000+09:00") {
		return dateAtom{}
	}
	atom := dateAtom{last: tail != "" && tail != ","}
	if c := core[0]; '0' <= c && c <= '9' {
		atom.kind, atom.date = numericDate(core)
		return atom
	}
	if core == "of" || core == "the" {
		atom.kind = atomJoin
		return atom
	}
	var low [9]byte
	if len(core) > len(low) {
		return dateAtom{}
	}
	for i := 0; i < len(core); i++ {
		c := core[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c < 'a' || c > 'z' {
			return dateAtom{}
		}
		low[i] = c
	}
	name := string(low[:len(core)])
	if month, whole := monthOf(name); month > 0 {
		atom.kind, atom.date.month = atomMonth, month
		if !whole {
			atom.kind = atomWeak
			if !upper(rune(core[0])) {
				atom.date.year = -1
			}
			atom.last = atom.last && tail != "."
		}
		return atom
	}
	if day, ok := weekdayOf(name); ok && (len(name) > 5 || upper(rune(core[0]))) {
		atom.kind, atom.date.day = atomWeekday, day
		atom.last = false
		return atom
	}
	return dateAtom{}
}

// monthOf returns the month of an English name, and whether the name is nothing
// but a month.
func monthOf(name string) (month int, whole bool) {
	switch name {
	case "january":
		return 1, true
	case "february":
		return 2, true
	case "april":
		return 4, true
	case "june":
		return 6, true
	case "july":
		return 7, true
	case "august":
		return 8, true
	case "september":
		return 9, true
	case "october":
		return 10, true
	case "november":
		return 11, true
	case "december":
		return 12, true
	case "jan":
		return 1, false
	case "feb":
		return 2, false
	case "march", "mar":
		return 3, false
	case "apr":
		return 4, false
	case "may":
		return 5, false
	case "jun":
		return 6, false
	case "jul":
		return 7, false
	case "aug":
		return 8, false
	case "sep", "sept":
		return 9, false
	case "oct":
		return 10, false
	case "nov":
		return 11, false
	case "dec":
		return 12, false
	}
	return 0, false
}

// weekdayOf returns the weekday of an English name, Sunday being 0. "Sat" and
// "Sun" are words too and no weekdays.
func weekdayOf(name string) (day int, ok bool) {
	switch name {
	case "sunday":
		return 0, true
	case "monday", "mon":
		return 1, true
	case "tuesday", "tue", "tues":
		return 2, true
	case "wednesday", "wed":
		return 3, true
	case "thursday", "thu", "thur", "thurs":
		return 4, true
	case "friday", "fri":
		return 5, true
	case "saturday":
		return 6, true
	}
	return 0, false
}

// numericDate reads a chunk that begins with a digit: a number that may be a
// day, an ordinal, a year, or a whole date.
func numericDate(s string) (atomKind, date) {
	n, size := digits(s)
	rest := s[size:]
	switch {
	case rest == "" && size <= 2 && n >= 1 && n <= 31:
		return atomNumber, date{day: n}
	case rest == "" && size == 4 && isYear(n):
		return atomYear, date{year: n}
	case size <= 2 && n >= 1 && n <= 31 && ordinalEnding(rest):
		return atomOrdinal, date{day: n}
	case rest == "" || rest[0] != '-' && rest[0] != '/' && rest[0] != '.':
		return atomNone, date{}
	}
	separator := rest[0]
	second, size2 := digits(rest[1:])
	rest2 := rest[1+size2:]
	if size2 == 0 || size2 > 2 {
		return atomNone, date{}
	}
	if size == 4 && isYear(n) {
		if rest2 == "" && separator != '.' && second >= 1 && second <= 12 {
			return atomWhole, date{year: n, month: second}
		}
		if rest2 == "" || rest2[0] != separator {
			return atomNone, date{}
		}
		third, size3 := digits(rest2[1:])
		rest3 := rest2[1+size3:]
		if d := (date{n, second, third}); size3 <= 2 && (rest3 == "" || rest3[0] == 'T' || rest3[0] == 't') && d.valid() {
			return atomWhole, d
		}
		return atomNone, date{}
	}
	if rest2 == "" || rest2[0] != separator || separator == '-' {
		return atomNone, date{}
	}
	third, size3 := digits(rest2[1:])
	if size > 2 || size3 != 4 || len(rest2) != 1+size3 || !isYear(third) {
		return atomNone, date{}
	}
	monthFirst, dayFirst := date{third, n, second}, date{third, second, n}
	switch {
	case separator == '.' && dayFirst.valid():
		return atomWhole, dayFirst
	case monthFirst.valid() && dayFirst.valid() && n != second:
		return atomWhole, date{year: third} // 03/04/2026 is read differently by different writers
	case monthFirst.valid():
		return atomWhole, monthFirst
	case dayFirst.valid():
		return atomWhole, dayFirst
	}
	return atomNone, date{}
}

// digits returns the number of at most nine digits that s begins with and how
// many digits that are.
func digits(s string) (n, size int) {
	for size < len(s) && size < 9 && '0' <= s[size] && s[size] <= '9' {
		n = n*10 + int(s[size]-'0')
		size++
	}
	return n, size
}

func isYear(n int) bool { return n >= 1900 && n <= 2099 }

func ordinalEnding(s string) bool {
	switch s {
	case "st", "nd", "rd", "th", "ST", "ND", "RD", "TH":
		return true
	}
	return false
}

// valid reports whether the date is on the calendar.
func (d date) valid() bool {
	if d.month < 1 || d.month > 12 || d.day < 1 {
		return false
	}
	t := time.Date(d.year, time.Month(d.month), d.day, 0, 0, 0, 0, time.UTC)
	return t.Month() == time.Month(d.month)
}

// unspaced reads the dates of a run of a script without spaces: 2026年11月30日,
// 十一月三十日, 月曜日, 星期一, 周一. A number before the first 年, 月 or 日 may
// have been the chunk in front of the run.
func (r *dateReader) unspaced(a *Analyser, s string) {
	r.start = false
	if !hanDate(s) {
		r.flush(a)
		return
	}
	number, from := 0, -1 // the number being read, and where its atom is
	if r.n > 0 {
		switch last := r.atoms[r.n-1]; last.kind {
		case atomNumber:
			number, from = last.date.day, r.n-1
		case atomYear:
			number, from = last.date.year, r.n-1
		}
	}
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		rest := s[i+size:]
		if n, length := hanNumber(s[i:]); length > 0 && from < 0 {
			if w, ok := hanWeekday(s, i); ok {
				a.emitDatePart('w', w)
			}
			number, from = n, r.n
			i += length
			continue
		}
		atom := dateAtom{}
		if from >= 0 {
			atom = hanAtom(c, number)
			if atom.kind != atomNone && span(rest) {
				atom.kind = atomNone
				r.n = min(r.n, from) // the number counts days, and is no day
			}
		}
		if w, ok := hanWeekday(s, i); ok {
			a.emitDatePart('w', w)
		}
		if atom.kind == atomNone {
			r.flush(a)
		} else {
			r.n = from
			r.push(a, atom)
		}
		from = -1
		i += size
	}
	if from == r.n {
		r.flush(a) // a number in Han characters with nothing behind it
	}
}

// hanDate reports whether a run holds a character that dates and weekdays are
// written with.
func hanDate(s string) bool {
	for _, c := range s {
		switch c {
		case '年', '月', '日', '号', '號', '曜', '期', '周', '週', '拜':
			return true
		}
	}
	return false
}

// hanAtom returns what a number is in front of 年, 月 or 日.
func hanAtom(c rune, number int) dateAtom {
	switch {
	case c == '年' && isYear(number):
		return dateAtom{kind: atomYear, date: date{year: number}}
	case c == '月' && number >= 1 && number <= 12:
		return dateAtom{kind: atomMonth, date: date{month: number}}
	case (c == '日' || c == '号' || c == '號') && number >= 1 && number <= 31:
		return dateAtom{kind: atomOrdinal, date: date{day: number}}
	}
	return dateAtom{}
}

func (r *dateReader) push(a *Analyser, atom dateAtom) {
	if r.n == len(r.atoms) {
		r.flush(a)
	}
	r.atoms[r.n] = atom
	r.n++
}

// span reports the characters that make 3日間, 5年前 or 两月后 a length of time
// and not a date.
func span(rest string) bool {
	c, _ := utf8.DecodeRuneInString(rest)
	switch c {
	case '間', '间', '前', '後', '后', '内', '以', '半':
		return true
	}
	return false
}

// hanWeekday reads the weekday whose character stands at s[i:]: before 曜, or
// behind 星期, 周, 週, 礼拜 or 禮拜.
func hanWeekday(s string, i int) (day int, ok bool) {
	c, size := utf8.DecodeRuneInString(s[i:])
	if next, _ := utf8.DecodeRuneInString(s[i+size:]); next == '曜' {
		switch c {
		case '日':
			return 0, true
		case '月':
			return 1, true
		case '火':
			return 2, true
		case '水':
			return 3, true
		case '木':
			return 4, true
		case '金':
			return 5, true
		case '土':
			return 6, true
		}
		return 0, false
	}
	p, size := utf8.DecodeLastRuneInString(s[:i])
	pp, _ := utf8.DecodeLastRuneInString(s[:i-size])
	if p != '周' && p != '週' && (pp != '星' || p != '期') && (pp != '礼' && pp != '禮' || p != '拜') {
		return 0, false
	}
	switch c {
	case '日', '天':
		return 0, true
	case '一':
		return 1, true
	case '二':
		return 2, true
	case '三':
		return 3, true
	case '四':
		return 4, true
	case '五':
		return 5, true
	case '六':
		return 6, true
	}
	return 0, false
}

// hanNumber reads the number in Han characters that s begins with, 1 to 99 or
// four digits of a year, and its length in bytes; length 0 when there is none.
func hanNumber(s string) (n, length int) {
	tens, ones, count, plain := 0, 0, 0, 0
	for length < len(s) && count < 4 {
		c, size := utf8.DecodeRuneInString(s[length:])
		v := hanDigit(c)
		if v < 0 {
			break
		}
		if v == 10 {
			tens = max(ones, 1)
			ones = 0
		} else {
			ones = v
			plain = plain*10 + v
		}
		count++
		length += size
	}
	switch {
	case count == 4 && tens == 0:
		return plain, length
	case tens == 0 && count > 1:
		return 0, length
	}
	return tens*10 + ones, length
}

func hanDigit(c rune) int {
	switch c {
	case '〇', '零':
		return 0
	case '一':
		return 1
	case '二':
		return 2
	case '三':
		return 3
	case '四':
		return 4
	case '五':
		return 5
	case '六':
		return 6
	case '七':
		return 7
	case '八':
		return 8
	case '九':
		return 9
	case '十':
		return 10
	}
	return -1
}
