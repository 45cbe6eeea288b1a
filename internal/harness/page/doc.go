// Package page draws the report of a chaos run as one HTML file, which needs no network and
// no script: charts are inline SVG. The file contains the report in JSON too, so that Read
// reads either form.
package page
