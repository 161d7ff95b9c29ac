package main

import "testing"

func TestAloneMarkIsFoundByTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	marked, mark, err := aloneMark(dir)
	if err != nil || marked {
		t.Fatalf("a new directory: %v %v", marked, err)
	}
	for _, on := range []bool{true, true, false, false} {
		if err := mark(on); err != nil {
			t.Fatal(err)
		}
		if marked, _, err := aloneMark(dir); err != nil || marked != on {
			t.Errorf("after mark(%v) the next process finds %v, %v", on, marked, err)
		}
	}
}
