package canonical

import (
	"fmt"
	"reflect"
)

// CheckType returns an error unless equal values of type t have equal encodings.
func CheckType(t reflect.Type, depth int) error {
	if depth > DepthMax {
		return fmt.Errorf("type %v nests deeper than %d", t, DepthMax)
	}
	switch t.Kind() {
	case reflect.Map, reflect.Interface, reflect.Pointer, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Errorf("type %v has no canonical encoding", t)
	case reflect.Slice, reflect.Array:
		return CheckType(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				return fmt.Errorf("type %v has the unexported field %s, which no encoding would carry", t, f.Name)
			}
			if err := CheckType(f.Type, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// HoldsSlice reports whether values of type t hold slices, which callers could change.
func HoldsSlice(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return true
	case reflect.Array:
		return HoldsSlice(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if HoldsSlice(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// HoldsFloat reports whether values of type t hold floating-point numbers.
func HoldsFloat(t reflect.Type, depth int) bool {
	if depth > DepthMax {
		return false // CheckType refuses it
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return HoldsFloat(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			if HoldsFloat(t.Field(i).Type, depth+1) {
				return true
			}
		}
	}
	return false
}

// DepthMax bounds how deep arrays and maps may nest inside one element.
const DepthMax = 32
