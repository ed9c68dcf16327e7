package shards

import (
	"fmt"
	"io/fs"

	"recalld/lexical"
)

// errWrittenTo says that somebody wrote to a file in use, which is never changed
// by this program. Until its checksums are right again it counts as damaged.
var errWrittenTo = fmt.Errorf("%w: somebody else wrote to a file in use", lexical.ErrCorrupt)

// intact returns errWrittenTo when one of the files is not as it was when its
// checksums were found right: of another length, or written to since. The open
// file is asked, not its name: what is removed or replaced by name stays mapped
// as it was. l.mu or l.work is held.
func intact(files []*file) error {
	for _, f := range files {
		if f.mapped == nil {
			continue
		}
		now, err := f.opened.Stat()
		if err != nil {
			return fmt.Errorf("%w: %s: %v", errWrittenTo, f.Name, err)
		}
		if now.Size() != f.asSeen.Size() || !now.ModTime().Equal(f.asSeen.ModTime()) {
			return fmt.Errorf("%w: %s", errWrittenTo, f.Name)
		}
	}
	return nil
}

// whileIntact reads postings of some files. It looks at them before, so as not to
// read what is certainly wrong, and again before anybody uses what was read.
func whileIntact(files []*file, read func() error) error {
	if err := intact(files); err != nil {
		return err
	}
	err := guard(read)
	if written := intact(files); written != nil {
		return written
	}
	return err
}

// examine verifies everything in the file and returns the file as it was before.
func (f *file) examine() (before fs.FileInfo, err error) {
	if f.mapped == nil {
		return nil, f.Verify()
	}
	if before, err = f.opened.Stat(); err != nil {
		return nil, err
	}
	if before.Size() != f.Bytes {
		return nil, fmt.Errorf("%w: %s has %d bytes, not %d", lexical.ErrCorrupt, f.Name, before.Size(), f.Bytes)
	}
	err = guard(func() error {
		fresh, err := lexical.Open(f.mapped) // its header and directory
		if err != nil {
			return err
		}
		return fresh.Verify()
	})
	return before, err
}
