package view

var scenarios = []scenario{}
