// Package tables compares tables of HTML: TEDS, the similarity by the distance of their trees.
//
// Start with TEDS; Parse is the tree of a table.
package tables
