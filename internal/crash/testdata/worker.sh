#!/bin/bash
# A program for sojourn work --exec that writes down when it runs what, in the file $LEDGER.
echo "begin $SOJOURN_ID $(date +%s%N) exec" >>"$LEDGER"
sleep "$(cat "$SOJOURN_ARGS")e-3"
echo "end $SOJOURN_ID $(date +%s%N) exec" >>"$LEDGER"
