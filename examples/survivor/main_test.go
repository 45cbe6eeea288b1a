package main

func Example() {
	main()
	// Output:
	// visits: 1
	// visits: 2
	// visits: 3
	// its node crashes
	// visits: 4
}
