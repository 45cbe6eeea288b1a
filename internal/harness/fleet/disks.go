package fleet

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	fillerName = "filler"
	// diskBytes is the size of a place's disk.
	diskBytes = 64 << 20
)

// FillDisk takes all room on the disk of a directory.
func FillDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, fillerName))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for written := 0; ; {
		n, err := f.Write(block)
		written += n
		switch {
		case written > diskBytes:
			return fmt.Errorf("%s takes more than %d bytes: it is not a disk of its own", dir, diskBytes)
		case err != nil && len(block) > 1: // the last pages
			block = block[:len(block)/2]
		case err != nil:
			return nil
		}
	}
}

// FreeDisk gives back the room that FillDisk took.
func FreeDisk(dir string) error { return os.Remove(filepath.Join(dir, fillerName)) }
