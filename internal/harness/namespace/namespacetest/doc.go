// Package namespacetest gives tests network namespaces of their own.
package namespacetest
