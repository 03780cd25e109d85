package cpu

func adviseHugePages([]byte) {}
