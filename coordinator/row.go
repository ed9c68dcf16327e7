package coordinator

import (
	"math"
	"strconv"

	"recalld/memory"
)

// rowOf is a record as it stands in an answer, whole and without a score.
func rowOf(r memory.Record) Row {
	row := Row{
		Ref:       r.Ref.String(),
		Content:   r.Content,
		Time:      r.Time.String(),
		End:       r.End.String(),
		Project:   r.Cell.Project,
		Channel:   r.Cell.Channel,
		MessageID: r.MessageID,
		Source:    r.Source,
		Metadata:  r.Metadata,
		Keywords:  r.Keywords,
		Resolved:  r.Resolved,
		Locked:    r.Locked,
	}
	if r.Version > 1 {
		row.Version = r.Version
	}
	if r.SupersededBy.ID != 0 {
		row.SupersededBy = r.SupersededBy.String()
	}
	return row
}

// revised is a whole row with the revision of its text.
func revised(r memory.Record) Row {
	row := rowOf(r)
	row.Revision = memory.Revision(r.Content)
	return row
}

// preview cuts the content to at most limit code points. A cut row is a pure
// prefix, says so, and carries the length and the revision of the whole
// (RR-434, BR-086). limit 0 cuts nothing.
func (r *Row) preview(limit int) {
	if limit == 0 {
		return
	}
	prefix, cut := memory.Prefix(r.Content, limit)
	if !cut {
		return
	}
	r.Revision = memory.Revision(r.Content)
	r.ContentLen = memory.Len(r.Content)
	r.ContentTruncated = true
	r.Content = prefix
}

// places is how many decimals a score in an answer has.
const places = 1e6

// rounded is a score as it stands in an answer.
func rounded(x float64) float64 { return math.Round(x*places) / places }

// significant is an arm's key as it stands in an answer: arms have scales of
// their own, so it keeps six digits wherever they are. Decimal text is rounded
// exactly, where a power of ten found by math.Log10 depends on the processor.
func significant(x float64) float64 {
	if x == 0 {
		return 0
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 5, 64), 64) // six digits never overflow
	return rounded
}

func roundedPointer(x float64) *float64 {
	r := rounded(x)
	return &r
}
