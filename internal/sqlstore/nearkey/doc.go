// Package nearkey finds keys that are easily mistaken for each other, such as "Order-7 " for
// "order-7": an answer under such a key may have been meant for the other one.
package nearkey
