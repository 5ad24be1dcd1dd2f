package txn

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

const qOwner = `select grants, expires_us, revoked_us from sj_access where id = $1`

// OwnerOf returns the caller on whose behalf work goes on later, with the grants that its token has
// now; nil for the application. A token that is revoked, has expired or does not exist has none:
// good is false.
func OwnerOf(t *Tx, owner string) (c *access.Caller, good bool, err error) {
	if owner == "" {
		return nil, true, nil
	}
	var token access.Token
	if err := t.Read(qOwner, func(r sqldb.Row) error {
		token = access.Token{ID: owner, ExpiresAt: jobrow.Time(r.Int(1)), RevokedAt: jobrow.Time(r.Int(2))}
		return json.Unmarshal([]byte(r.Text(0)), &token.Grants)
	}, owner); err != nil {
		return nil, false, err
	}
	c = &access.Caller{Token: owner}
	if good = token.ID != "" && token.Good(jobrow.Time(t.Now)); good {
		c.Grants = token.Grants
	}
	return c, good, nil
}
