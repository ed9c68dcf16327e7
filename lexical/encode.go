package lexical

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"recalld/memory"
)

// encode writes the live rows of a view as one partition. The same rows give the
// same bytes, whatever sources they come from.
func encode(kind memory.Kind, v view) ([]byte, error) {
	var e encoder
	if err := e.rows(v.sequence); err != nil {
		return nil, err
	}
	if err := e.terms(v); err != nil {
		return nil, err
	}
	return e.finish(kind, v.sequence)
}

type encoder struct {
	sections [sectionCount][]byte
	count    uint32 // terms
	before   string // the term before
	scratch  [blockLen]uint64
	maxID    int64
}

func (e *encoder) rows(q *sequence) error {
	var ids, lengths [blockLen]uint64
	n := 0
	records, payload := []byte(nil), []byte(nil)
	flush := func() {
		if n == 0 {
			return
		}
		base := ids[0]
		for _, id := range ids[:n] {
			base = min(base, id)
		}
		var idBits, longest uint64
		for i := range n {
			ids[i] -= base
			idBits |= ids[i]
			longest = max(longest, lengths[i])
		}
		records = binary.LittleEndian.AppendUint64(records, base)
		records = binary.LittleEndian.AppendUint32(records, uint32(len(payload)))
		lengthWidth := lengthBytes(longest)
		records = append(records, widthOf(idBits), lengthWidth)
		payload = appendPacked(payload, ids[:n], widthOf(idBits))
		payload = appendPacked(payload, lengths[:n], 8*lengthWidth)
		n = 0
	}
	var session uint64
	for _, r := range q.runs {
		s := q.sources[r.source]
		for i := range r.count {
			k := s.key(int(r.first + i))
			if pos := r.pos + i; pos == 0 || k.session != session {
				session = k.session
				e.sections[sectionSessions] = binary.LittleEndian.AppendUint64(e.sections[sectionSessions], session)
				e.sections[sectionSessions] = binary.LittleEndian.AppendUint32(e.sections[sectionSessions], pos)
			}
			if k.id < 1 || k.id > maxID {
				return fmt.Errorf("encode postings: record id %d is not in 1 to 2^56-1", k.id)
			}
			e.maxID = max(e.maxID, k.id)
			ids[n], lengths[n] = uint64(k.id), uint64(s.length(int(r.first+i)))
			if n++; n == blockLen {
				flush()
			}
		}
	}
	flush()
	e.sections[sectionRows] = append(records, payload...)
	return nil
}

// lengthBytes returns how many bytes each length of a block takes: 1, 2 or 4.
func lengthBytes(longest uint64) uint8 {
	switch {
	case longest < 1<<8:
		return 1
	case longest < 1<<16:
		return 2
	}
	return 4
}

// terms merges the dictionaries of all sources.
func (e *encoder) terms(v view) error {
	type stream struct {
		next func() (termList, error, bool)
		head termList
		ok   bool
	}
	streams := make([]stream, len(v.sources))
	advance := func(s *stream) error {
		var err error
		s.head, err, s.ok = s.next()
		return err
	}
	for i, src := range v.sources {
		next, stop := iter.Pull2(src.dictionary())
		defer stop()
		streams[i].next = next
		if err := advance(&streams[i]); err != nil {
			return err
		}
	}
	blocks := make([]block, len(v.sources))
	var l lane
	var postings []posting
	for {
		term, found := "", false
		for i := range streams {
			if s := &streams[i]; s.ok && (!found || s.head.term < term) {
				term, found = s.head.term, true
			}
		}
		if !found {
			return nil
		}
		l = lane{window: l.window[:0], readers: l.readers[:0]}
		for i := range streams {
			s := &streams[i]
			if !s.ok || s.head.term != term {
				continue
			}
			l.readers = append(l.readers, reader{list: s.head.list, runs: v.bySource[i], b: &blocks[i]})
			if err := advance(s); err != nil {
				return err
			}
		}
		if err := l.fill(0, v.sequence.rows); err != nil {
			return err
		}
		postings = postings[:0]
		for _, p := range l.window {
			postings = append(postings, posting{p.pos, p.freq})
		}
		if len(postings) > 0 {
			e.term(term, postings)
		}
	}
}

func (e *encoder) term(term string, p []posting) {
	shared := 0
	if e.count%groupLen == 0 {
		g := binary.LittleEndian.AppendUint32(e.sections[sectionGroups], uint32(len(e.sections[sectionTerms])))
		e.sections[sectionGroups] = binary.LittleEndian.AppendUint32(g, uint32(len(e.sections[sectionPostings])))
	} else {
		for shared < len(term) && shared < len(e.before) && term[shared] == e.before[shared] {
			shared++
		}
	}
	size := len(term) - shared
	t := append(e.sections[sectionTerms], byte(min(shared, escape)<<4|min(size, escape)))
	if shared >= escape {
		t = binary.AppendUvarint(t, uint64(shared-escape))
	}
	if size >= escape {
		t = binary.AppendUvarint(t, uint64(size-escape))
	}
	t = append(t, term[shared:]...)
	switch {
	case len(p) > 1:
		before := len(e.sections[sectionPostings])
		e.sections[sectionPostings] = appendList(e.sections[sectionPostings], p, e.scratch[:])
		t = binary.AppendUvarint(t, uint64(len(p))<<1)
		t = binary.AppendUvarint(t, uint64(len(e.sections[sectionPostings])-before))
	case p[0].freq > 1:
		t = binary.AppendUvarint(t, uint64(p[0].row)<<2|3)
		t = binary.AppendUvarint(t, uint64(p[0].freq))
	default:
		t = binary.AppendUvarint(t, uint64(p[0].row)<<2|1)
	}
	e.sections[sectionTerms] = t
	e.before = term
	e.count++
}

func (e *encoder) finish(kind memory.Kind, q *sequence) ([]byte, error) {
	size := partitionHeader + packPad
	for _, s := range e.sections {
		size += len(s)
	}
	if size > math.MaxUint32 {
		return nil, fmt.Errorf("encode postings: a partition of %d bytes is above 4 GiB; cut the cell", size)
	}
	b := make([]byte, partitionHeader, size)
	binary.LittleEndian.PutUint32(b, q.rows)
	binary.LittleEndian.PutUint32(b[4:], e.count)
	b[8] = byte(kind)
	binary.LittleEndian.PutUint64(b[12:], q.length)
	binary.LittleEndian.PutUint64(b[20:], uint64(e.maxID))
	for i, s := range e.sections {
		record := b[28+i*12:]
		binary.LittleEndian.PutUint32(record, uint32(len(b)))
		binary.LittleEndian.PutUint32(record[4:], uint32(len(s)))
		binary.LittleEndian.PutUint32(record[8:], checksum(s))
		b = append(b, s...)
	}
	binary.LittleEndian.PutUint32(b[partitionHeader-4:], checksum(b[:partitionHeader-4]))
	return append(b, make([]byte, packPad)...), nil
}
