package layout

import "sync/atomic"

// chunks verifies the sections of a segment, each chunk of them once.
type chunks struct {
	name     string
	bytes    []byte
	plan     plan
	want     []uint32        // the checksums, in memory
	verified []atomic.Uint32 // one bit a chunk
}

// touch verifies bytes [from, to) of a section, as far as that was not done
// before. Two callers at once may both do it.
func (c *chunks) touch(section int, from, to int64) error {
	if from >= to {
		return nil
	}
	for chunk := int(from / ChunkBytes); chunk <= int((to-1)/ChunkBytes); chunk++ {
		i := c.plan.first[section] + chunk
		bit := uint32(1) << (i % 32)
		if c.verified[i/32].Load()&bit != 0 {
			continue
		}
		if err := c.verify(section, chunk); err != nil {
			return err
		}
		c.verified[i/32].Or(bit)
	}
	return nil
}

// verify compares one chunk with its checksum, whatever was found before.
func (c *chunks) verify(section, chunk int) error {
	e := c.plan.sections[section]
	from := e.at + int64(chunk)*ChunkBytes
	to := min(from+ChunkBytes, e.end())
	return Guard(func() error {
		if checksum(c.bytes[from:to]) != c.want[c.plan.first[section]+chunk] {
			return c.damage(section, chunk, "its checksum does not match")
		}
		return nil
	})
}

// section returns the bytes of a section, without padding.
func (c *chunks) section(i int) []byte {
	e := c.plan.sections[i]
	return c.bytes[e.at : e.at+e.n : e.at+e.n]
}

func (c *chunks) damage(section, chunk int, problem string) error {
	return &DamageError{File: c.name, Section: sectionName(section), Chunk: chunk, Problem: problem}
}
