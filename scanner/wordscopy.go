package scanner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edsrzf/mmap-go"

	"recalld/layout"
	"recalld/lexical"
	scannerv1 "recalld/proto/recalld/scanner/v1"
)

// wordsCopy is the server's lexical index as it was at a version. It is changed
// by one request at a time, while no search runs.
type wordsCopy struct {
	version uint64
	folder  string
	index   *lexical.Index
	files   []*wordsFile
	// changed says at which version each cell changed last. Cells that are not in it
	// changed at floor or before.
	changed map[lexical.Cell]uint64
	floor   uint64
}

// mostChangedCells are known one by one.
const mostChangedCells = 100_000

// load makes the copy that a request describes. Files that the last copy has are
// taken from there. After an error the copy has the files that were opened.
func (c *wordsCopy) load(r *scannerv1.LoadWordsRequest, last *wordsCopy) error {
	known := make(map[string]*wordsFile)
	if last != nil && last.folder == c.folder {
		for _, f := range last.files {
			if f.intact() == nil {
				known[f.name] = f
			}
		}
	}
	var postings []*lexical.File
	for _, named := range r.GetFiles() {
		f := known[named.GetName()]
		delete(known, named.GetName())
		if f == nil {
			var err error
			if f, err = openWords(c.folder, named.GetName()); err != nil {
				return err
			}
		}
		c.files = append(c.files, f)
		postings = append(postings, f.File)
	}
	docs, err := wordsDocs(r.GetRows())
	if err != nil {
		return err
	}
	c.index = lexical.NewIndex(postings...)
	err = layout.Guard(func() error {
		for _, named := range r.GetFiles() {
			for _, dead := range named.GetDead() {
				if err := c.index.Delete(lexical.Cell(dead.GetCell()), refOf(dead.GetRef())); err != nil {
					return err
				}
			}
		}
		return c.index.Put(docs...)
	})
	return c.blame(err)
}

// wordsStep is one change, with its file open.
type wordsStep struct {
	put     []lexical.Doc
	delete  *scannerv1.WordName
	replace *scannerv1.WordReplace
	in      *wordsFile
}

// prepare checks steps and opens their files. After an error it returns the steps
// that it came to.
func (c *wordsCopy) prepare(steps []*scannerv1.WordStep) (ready []wordsStep, err error) {
	for i, s := range steps {
		var next wordsStep
		switch s := s.GetStep().(type) {
		case *scannerv1.WordStep_Put:
			next.put, err = wordsDocs(s.Put.GetRows())
		case *scannerv1.WordStep_Delete:
			next.delete = s.Delete
		case *scannerv1.WordStep_Replace:
			if next.replace = s.Replace; s.Replace.GetIn() != "" {
				next.in, err = openWords(c.folder, s.Replace.GetIn())
			}
		default:
			err = invalid("steps", "has no step %d", i)
		}
		if err != nil {
			return ready, err
		}
		ready = append(ready, next)
	}
	return ready, nil
}

// apply makes one change, which is one version. After an error the copy is of no
// use.
func (c *wordsCopy) apply(s wordsStep) error {
	c.version++
	switch {
	case s.replace != nil:
		c.floor = c.version
		return c.replace(s)
	case s.delete != nil:
		cell := lexical.Cell(s.delete.GetCell())
		c.touch(cell)
		return c.index.Delete(cell, refOf(s.delete.GetRef()))
	}
	for _, d := range s.put {
		c.touch(d.Cell)
	}
	return c.index.Put(s.put...)
}

func (c *wordsCopy) replace(s wordsStep) error {
	var out []*lexical.File
	var gone []*wordsFile
	kept := make([]*wordsFile, 0, len(c.files)+1)
	leaves := make(map[string]bool, len(s.replace.GetOut()))
	for _, name := range s.replace.GetOut() {
		leaves[name] = true
	}
	for _, f := range c.files {
		if !leaves[f.name] {
			kept = append(kept, f)
			continue
		}
		gone = append(gone, f)
		out = append(out, f.File)
	}
	if len(gone) != len(s.replace.GetOut()) {
		return invalid("replace.out", "names %d files, of which the copy has %d", len(s.replace.GetOut()), len(gone))
	}
	var by *lexical.File
	if s.in != nil {
		kept = append(kept, s.in)
		by = s.in.File
	}
	if err := c.index.Replace(out, s.replace.GetMemory(), by); err != nil {
		return err
	}
	c.files = kept
	for _, f := range gone {
		f.release()
	}
	return nil
}

// touch notes that a cell changes at this version.
func (c *wordsCopy) touch(cell lexical.Cell) {
	if len(c.changed) >= mostChangedCells {
		clear(c.changed)
		c.floor = c.version
	}
	c.changed[cell] = c.version
}

// passed reports whether one of the cells may have changed after a version.
func (c *wordsCopy) passed(cells []lexical.Cell, known uint64) bool {
	if c.floor > known {
		return true
	}
	for _, cell := range cells {
		if c.changed[cell] > known {
			return true
		}
	}
	return false
}

// intact returns an error when a file is not as it was when it was opened.
func (c *wordsCopy) intact() error {
	for _, f := range c.files {
		if err := f.intact(); err != nil {
			return err
		}
	}
	return nil
}

// blame names the file that damage is in. When none has any, the copy as a whole
// is of no use.
func (c *wordsCopy) blame(err error) error {
	var named *fileError
	if !errors.Is(err, lexical.ErrCorrupt) && !errors.Is(err, layout.ErrDamaged) || errors.As(err, &named) {
		return err
	}
	for _, f := range c.files {
		if bad := layout.Guard(f.Verify); bad != nil {
			return inFile(f.name, bad)
		}
	}
	return inFile("", err)
}

// wordsFile is an open file of postings.
type wordsFile struct {
	name string
	*lexical.File
	mapped mmap.MMap
	opened *os.File
	asSeen fs.FileInfo // before it was mapped
}

// openWords maps a file of postings.
func openWords(folder, name string) (_ *wordsFile, err error) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return nil, invalid("name", "is not that of a file")
	}
	opened, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		return nil, inFile(name, err)
	}
	f := &wordsFile{name: name, opened: opened}
	defer func() {
		if err != nil {
			f.release()
		}
	}()
	if f.asSeen, err = opened.Stat(); err != nil {
		return nil, inFile(name, err)
	}
	if f.asSeen.Size() == 0 {
		return nil, inFile(name, fmt.Errorf("%w: it is empty", lexical.ErrCorrupt))
	}
	if f.mapped, err = mmap.Map(opened, mmap.RDONLY, 0); err != nil {
		return nil, inFile(name, err)
	}
	err = layout.Guard(func() (err error) {
		f.File, err = lexical.Open(f.mapped)
		return err
	})
	if err != nil {
		return nil, inFile(name, err)
	}
	return f, nil
}

// release unmaps the file. Nobody may read it any more.
func (f *wordsFile) release() {
	if f.mapped != nil {
		_ = f.mapped.Unmap() // of a mapping that was only read
	}
	_ = f.opened.Close()
}

// intact returns an error when somebody wrote to the file since it was opened.
func (f *wordsFile) intact() error {
	now, err := f.opened.Stat()
	if err != nil {
		return inFile(f.name, err)
	}
	if now.Size() != f.asSeen.Size() || !now.ModTime().Equal(f.asSeen.ModTime()) {
		return inFile(f.name, fmt.Errorf("%w: somebody wrote to it while it was in use", lexical.ErrCorrupt))
	}
	return nil
}
