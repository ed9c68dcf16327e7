package embed

import (
	"errors"
	"math"
	"testing"
)

// Whatever a server sends is either a bad response or n finite vectors of one
// dimension.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"data":[{"index":1,"embedding":[0.5,-1e-3]},{"index":0,"embedding":[1,2]}]}`,
		`{"data":[{"embedding":[1]},{"embedding":[2]}]}`,
		`{"embeddings":[[1,2],[3,4]],"dimensions":2}`,
		`{"embeddings":[[ 1 , 2 ],[null,4]]}`,
		`{"token_info":[{"count":5,"window":8,"truncated":false,"window_end_char":2},{"count":9,"window":8,"window_end_char":1}]}`,
		`{"data":[{"index":-1,"embedding":[1e39]}]}`,
		"[[[[[[", "", "null",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range []contract{openAI{}, plain{}} {
			vectors, err := c.vectors(body, 2)
			if err != nil {
				if !errors.Is(err, ErrBadResponse) {
					t.Fatalf("%s: %v", c.path(), err)
				}
				continue
			}
			if len(vectors) != 2 || len(vectors[0]) == 0 || len(vectors[0]) > MaxDims || len(vectors[0]) != len(vectors[1]) {
				t.Fatalf("%s: %d vectors", c.path(), len(vectors))
			}
			for _, v := range vectors {
				for _, x := range v {
					if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
						t.Fatalf("%s: %v", c.path(), x)
					}
				}
			}
		}
		texts := []string{"長い", "記憶"}
		counts, err := tokenReport(body, texts)
		if err != nil {
			if !errors.Is(err, ErrBadResponse) && !errors.Is(err, ErrNotOffered) {
				t.Fatal(err)
			}
			return
		}
		for _, c := range counts {
			if c.WindowEnd < 0 || c.WindowEnd > 2 || c.Window < 1 || (c.Tokens <= c.Window) != (c.WindowEnd == 2) {
				t.Fatalf("%+v", c)
			}
		}
	})
}
