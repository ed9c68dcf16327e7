package coordinator

import (
	"fmt"
	"path/filepath"
	"testing"
)

// DECISIONS 14: beside rebuilds, whose pages are snapshots, an update whose answer
// does not say that its erasure is pending has left the former words in no file, the
// log included.
func TestScannerUpdatesBesideRebuildsSayWhatIsLeft(t *testing.T) {
	b := openWith(t, filepath.Join(t.TempDir(), "recall.db"), nil, ownScanner(t))
	shelve(b, 5, 40)
	ref := b.put("mia", say("the zanzibarite0 is here"))[0]
	b.drain()
	b.built()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if _, err := b.ChangeIndex(t.Context(), IndexRequest{Action: IndexRebuild}, nil); err != nil {
				ended <- err
				return
			}
		}
	}()
	pending := 0
	for i := range 30 {
		row, err := b.Update(t.Context(), UpdateRequest{Agent: "mia", Ref: ref, Content: pointer(fmt.Sprintf("the zanzibarite%d is here", i+1))})
		if err != nil {
			t.Fatal(err)
		}
		if row.ErasePending {
			pending++
		} else if in := below(t, filepath.Dir(b.path), fmt.Sprintf("zanzibarite%d ", i)); len(in) > 0 {
			t.Errorf("the answer says that the words are gone, and they are in %v", in)
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Log(pending, "of 30 were pending")
}
