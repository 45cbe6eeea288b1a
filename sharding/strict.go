package sharding

import "sync"

// strictly returns what would arrive of v from another node: it goes through the codec, and
// shares no memory with v afterwards.
func strictly[T any](p *sync.Pool, c Codec[T], v T, bytesMax int) (arrived T, err error) {
	buf := p.Get().(*[]byte)
	defer p.Put(buf)
	encoded, err := encode(c, (*buf)[:0], v)
	if err != nil {
		return arrived, &codecError{err}
	}
	*buf = encoded
	if len(encoded) > bytesMax {
		return arrived, ErrTooLarge
	}
	if arrived, err = decode(c, encoded); err != nil {
		return arrived, &codecError{err}
	}
	return arrived, nil
}
