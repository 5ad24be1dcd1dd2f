package jobstat

import "testing"

// BenchmarkLife is what the statistics of one job cost: two counts and three times in a
// transaction of 30 jobs, and their fold.
func BenchmarkLife(b *testing.B) {
	collect := func(i int) []byte {
		var c Changes
		for k := range int64(30) {
			c.Count("default", "mail", Enqueued, 1)
			c.Count("default", "mail", Completed, 1)
			for _, m := range []int{Wait, Run, Total} {
				c.Time("default", "mail", m, 1500+int64(i*37)%9000+k*113)
			}
		}
		return c.Take()
	}
	b.Run("collect", func(b *testing.B) {
		for i := 0; i < b.N; i += 30 {
			collect(i)
		}
	})
	b.Run("fold", func(b *testing.B) {
		events := collect(0)
		var r Record
		b.ResetTimer()
		for i := 0; i < b.N; i += 30 {
			if err := AddEvents(events, func(string, string) *Record { return &r }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
