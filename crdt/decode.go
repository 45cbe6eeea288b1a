package crdt

// decoder is a Value that can be read.
type decoder interface {
	Value
	Decode(b []byte) error
}

// New returns an empty value of a kind, in the instantiation that Decode gives. It
// fails with *KindError for an unknown kind.
func New(kind Kind) (Value, error) {
	if v := blank(kind); v != nil {
		return v, nil
	}
	return nil, &KindError{Want: kind}
}

func blank(kind Kind) decoder {
	if !kind.known() {
		return nil
	}
	switch kind.base() {
	case KindGCounter:
		return &GCounter{}
	case KindPNCounter:
		return &PNCounter{}
	case KindFlag:
		return &Flag{}
	case KindVersionVector:
		return &VersionVector{}
	}
	first := anyElement(kind.element(0))
	switch kind.base() {
	case KindGSet:
		return &GSet[string]{elem: first}
	case KindLWWRegister:
		return &LWWRegister[string]{elem: first}
	case KindMVRegister:
		return &MVRegister[string]{ORSet[string]{elem: first}}
	case KindORSet:
		return &ORSet[string]{elem: first}
	case KindLWWMap:
		return &LWWMap[string, string]{types: &lwwTypes[string, string]{first, anyElement(kind.element(1))}}
	case KindORMap:
		m := &ORMap[string, string]{}
		m.use(first, anyElement(kind.element(1)))
		return m
	case KindORMultiMap:
		m := &ORMultiMap[string, string]{}
		m.set.elem = elementWith[pair[string, string]](pairCodec[string, string]{first, anyElement(kind.element(1))})
		return m
	case KindPNCounterMap:
		m := &PNCounterMap[string]{}
		m.set.elem = elementWith[share[string]](shareCodec[string]{first})
		return m
	}
	return nil
}

// Decode reads a value that Append wrote, without knowing the caller's types: it
// gives ORSet[string], LWWMap[string, string] and so on, of which the strings hold what
// the caller's codec made, unless the element kind is ElementString: then they are the
// elements. It fails with *KindError, which names both, if b is of another kind. Nothing in the value aliases b. It never
// panics, whatever b holds, and allocates at most a small multiple of len(b). The
// errors are ErrTruncated, ErrMalformed, *LimitError and *KindError.
func Decode(kind Kind, b []byte) (Value, error) {
	v := blank(kind)
	if v == nil {
		return nil, &KindError{Want: kind}
	}
	if err := v.Decode(b); err != nil {
		return nil, err
	}
	return v, nil
}
