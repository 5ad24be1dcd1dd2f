-- needs: 5

-- by_whom is the operator who has written the line, '' for the handler. Programs that do not know it write lines of handlers as before.
alter table sj_log add column by_whom text not null default '';
