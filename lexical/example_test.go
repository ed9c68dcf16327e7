package lexical_test

import (
	"context"
	"fmt"
	"time"

	"recalld/lexical"
	"recalld/memory"
)

// Seal two rows of a session, add one, and ask.
func Example() {
	ref := func(id int64) memory.Ref { return memory.Ref{Kind: memory.KindMemory, ID: id} }
	when := memory.TimeOf(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))

	b := lexical.NewBuilder()
	b.Add(lexical.Doc{Cell: 1, Ref: ref(1), Session: "chat", Time: when, Text: "Ann: Did you repair the kettle?"})
	b.Add(lexical.Doc{Cell: 1, Ref: ref(2), Session: "chat", Time: when, Text: "Bo: Yesterday, yes."})
	sealed, err := b.Seal()
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := lexical.Open(sealed)
	if err != nil {
		fmt.Println(err)
		return
	}
	index := lexical.NewIndex(file)
	if err := index.Put(lexical.Doc{Cell: 1, Ref: ref(3), Time: when, Text: "Cy: やかんの修理は11月30日です"}); err != nil {
		fmt.Println(err)
		return
	}
	result, err := index.Search(context.Background(), lexical.Query{
		Text: "kettle repairs on Nov 30", Cells: []lexical.Cell{1}, Kind: memory.KindMemory, K: 10, Explain: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range result.Hits {
		fmt.Printf("%s %.2f", h.Ref, h.Bits())
		for _, m := range h.Matches {
			fmt.Printf(" %s", m.Term)
		}
		fmt.Println()
	}
	// Output:
	// mem:1 2.04 kettle repairs November November 30 day 30
	// mem:2 1.40 kettle repairs November November 30 day 30
	// mem:3 1.16 30 November November 30 day 30
}
