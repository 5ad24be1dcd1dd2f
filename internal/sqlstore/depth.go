package sqlstore

const ()
