-- A journal with schema version 1, as `.dump` wrote it. Never changes: journals like it are on people's disks.
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 1634954084;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE head(
        began INTEGER PRIMARY KEY,
        stream TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        state TEXT NOT NULL CHECK(state IN ('open', 'unfinished', 'closed')),
        root TEXT,
        due_wall_ms INTEGER,
        closed_wall_ms INTEGER,
        sum INTEGER NOT NULL
    ) STRICT;
INSERT INTO head VALUES(2,'session/claude-code/it''s s/1',1,'open',NULL,NULL,NULL,7409962726611091942);
INSERT INTO head VALUES(3,'ask/00000000-0000-0000-0000-000000000001',3,'unfinished','claude-code/it''s s/1',60000,NULL,1665558071241058128);
INSERT INTO head VALUES(6,'ask/00000000-0000-0000-0000-000000000002',1,'closed',NULL,NULL,51000,-1065871852365961543);
CREATE TABLE entry(
        position INTEGER PRIMARY KEY,
        began INTEGER NOT NULL,
        version INTEGER NOT NULL,
        id BLOB NOT NULL UNIQUE,
        at_wall_ms INTEGER NOT NULL,
        at_boot_ms INTEGER NOT NULL,
        at_boot BLOB NOT NULL,
        sum INTEGER NOT NULL,
        event TEXT NOT NULL,
        UNIQUE(began, version)
    ) STRICT;
INSERT INTO entry VALUES(2,2,1,X'00000000000000020000000000000000',50000,1000,X'00000000000000000000000000000007',8358471362335160052,'{"type":"subagent_ended","work_id":"w"}');
INSERT INTO entry VALUES(3,3,1,X'00000000000000030000000000000000',50000,1000,X'00000000000000000000000000000007',-5349954155932518464,'{"type":"asked","ask":{"id":"00000000-0000-0000-0000-000000000001","handle":"k7f","key":"call/1","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","action":{"tool":"Bash","input":"{\"command\": \"ls ''é''\"}","cwd":"/tmp"},"class":"tool","attendance":"foreground","lineage":{"session":{"agent":"claude-code","session":"it''s s/1"},"root":{"agent":"claude-code","session":"it''s s/1"}},"options":[],"policy":{"deadline_ms":null,"at_deadline":"hand_back","deny_stops":false},"requester":{"kind":"hook","token":"0000000000000000000000000000000000000000000000000000000000000000","grace_ms":0},"asked_at":{"boot":"00000000-0000-0000-0000-000000000007","boot_ms":1000,"wall_ms":50000},"gives_up_ms":null}}');
INSERT INTO entry VALUES(4,3,2,X'00000000000000040000000000000000',50000,1000,X'00000000000000000000000000000007',-1819925714098875997,'{"type":"shown","surface":"terminal"}');
INSERT INTO entry VALUES(5,3,3,X'00000000000000050000000000000000',50000,1000,X'00000000000000000000000000000007',1161519641079404588,'{"type":"settled","outcome":{"kind":"denied","cause":"person","source":"direct","surface":"terminal","by":"ada","message":"not this folder","stop":false,"at":{"boot":"00000000-0000-0000-0000-000000000007","boot_ms":2500,"wall_ms":51500},"after_ms":1500}}');
INSERT INTO entry VALUES(6,6,1,X'00000000000000060000000000000000',50000,1000,X'00000000000000000000000000000007',-844051025228337289,'{"type":"withdrawn","outcome":{"kind":"withdrawn","cause":"requester_gone","stop":false,"at":{"boot":"00000000-0000-0000-0000-000000000007","boot_ms":1,"wall_ms":2},"after_ms":1}}');
CREATE TABLE claim(
        name TEXT PRIMARY KEY,
        began INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
INSERT INTO claim VALUES('handle/k7f',3);
CREATE TABLE mark(
        name TEXT PRIMARY KEY,
        position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
INSERT INTO mark VALUES('pruned',1);
CREATE INDEX head_live ON head(due_wall_ms) WHERE state <> 'closed';
CREATE INDEX claim_holder ON claim(began);
COMMIT;
