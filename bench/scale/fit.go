package main

import "math"

// growth returns the exponent b of y = a x^b, fitted by least squares to the logarithms. It is NaN
// for fewer than three points with a positive value.
func growth(x, y []float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for i := range x {
		if x[i] <= 0 || y[i] <= 0 {
			continue
		}
		lx, ly := math.Log(x[i]), math.Log(y[i])
		n, sx, sy, sxx, sxy = n+1, sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	if d := n*sxx - sx*sx; n >= 3 && d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return math.NaN()
}
