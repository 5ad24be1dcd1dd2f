module github.com/sojourn-queue/sojourn

go 1.26.0
