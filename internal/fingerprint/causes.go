package fingerprint

// Causes are formats of error texts with a number and an id, for tests. Each is another cause.
var Causes = []string{
	"order %d of customer %s not found",
	"dial tcp 10.0.%[1]d.7:5432: connect: connection refused (request %[2]s)",
	"Get https://shop.example/orders/%d?trace=%s: context deadline exceeded",
	`pq: duplicate key value violates unique constraint "orders_%d_pkey" (%s)`,
	"open /var/lib/shop/%d/%s.json: no such file or directory",
	"card %d was declined (charge %s)",
	"insufficient funds: account %d, transfer %s",
	"template 'mail_%d' has no field for %s",
	"customer-%d@shop.example bounced: message %s",
	"panic: runtime error: index out of range [%d] with length 3 (request %s)",
	"panic: nil map, goroutine %d, request %s",
	"json: cannot unmarshal number %d into field id of %s",
	"rate limit exceeded: retry after %d s, request %s",
	"503 from the gateway %d: %s is down",
	"TLS handshake with db-%d.internal:443 failed: %s",
	"disk quota of tenant %d exceeded by upload %s",
	"lock %d is held by worker %s",
	"Bestellung %d für Kunde %s ungültig",
	"заказ %d клиента %s не найден",
	"在庫がありません: 商品 %d 注文 %s",
}
