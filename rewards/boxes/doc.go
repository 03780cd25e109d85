// Package boxes compares rectangles: how much two overlap, which belongs to which, and how
// good a detector's are.
//
// Start with box.go. matching.go pairs rectangles up, box.go drops those that say the same
// thing twice, precision.go is COCO's average precision.
//
// A Box is x0, y0, x1, y1 in any unit, y downwards, edges without width: its area is
// (x1-x0)(y1-y0). Where an upstream counts pixels and not distances, its own file says so.
package boxes
