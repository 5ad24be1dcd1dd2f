package sojourn
