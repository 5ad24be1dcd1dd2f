package enqueue

// depth bounds how many jobs that are too heavy a claim reads past.
const depth = 1000
