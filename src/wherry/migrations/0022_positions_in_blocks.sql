-- Positions in blocks: whoever stores many tasks draws one for all of them, and theirs follow it. To draw one for each
-- was a sixth of what a task of a batch cost the server. What is drawn later still stands behind what was drawn before,
-- whichever version drew it, and there are as many blocks as 290 years have microseconds.
-- Locks: the sequence, for a moment; waits for transactions that have drawn a position, and holds up whoever would draw one.
-- wherry: works from 19
alter sequence wherry.position increment by 1000;
