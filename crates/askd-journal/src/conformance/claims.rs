//! Names that at most one stream holds.

use super::hand::{OPEN, ask, batch, claim, conflict, one, picture};
use crate::contract::{Batch, Journal};

fn take(name: &str, holder: u128) -> Batch {
    Batch { take: vec![claim(name, &ask(holder))], ..Batch::default() }
}

fn release(name: &str, holder: u128) -> Batch {
    Batch { release: vec![claim(name, &ask(holder))], ..Batch::default() }
}

/// Streams 1 to 3, to hold claims.
fn begin(journal: &mut dyn Journal) {
    journal.commit(&batch((1..=3).map(|n| one(&ask(n), 0, OPEN)))).unwrap();
}

pub(super) fn life(journal: &mut dyn Journal) {
    assert_eq!(journal.holder("key/a").unwrap(), None);
    let first = Batch {
        take: vec![claim("key/a", &ask(1))],
        ..batch([one(&ask(1), 0, OPEN), one(&ask(2), 0, OPEN)])
    };
    journal.commit(&first).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), Some(ask(1)));
    // The same holder again is fine, also twice in one batch.
    journal.commit(&take("key/a", 1)).unwrap();
    journal.commit(&Batch { take: vec![claim("key/a", &ask(1)); 2], ..Batch::default() }).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), Some(ask(1)));
    journal.commit(&release("key/a", 1)).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), None);
    // What nobody holds is given up without harm, and another stream takes it.
    journal.commit(&release("key/a", 1)).unwrap();
    journal.commit(&take("key/a", 2)).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), Some(ask(2)));
}

pub(super) fn contested(journal: &mut dyn Journal) {
    begin(journal);
    journal.commit(&take("handle/k7f", 1)).unwrap();
    let tried = Batch {
        take: vec![claim("handle/new", &ask(2)), claim("handle/k7f", &ask(2))],
        ..batch([one(&ask(2), 1, OPEN), one(&ask(4), 0, OPEN)])
    };
    let before = picture(journal, &["handle/k7f", "handle/new"]);
    assert_eq!(conflict(journal, &tried), (vec![], vec![claim("handle/k7f", &ask(1))]));
    assert_eq!(picture(journal, &["handle/k7f", "handle/new"]), before);
    assert_eq!(journal.head(&ask(4)).unwrap(), None);
}

pub(super) fn handover(journal: &mut dyn Journal) {
    begin(journal);
    journal.commit(&take("key/a", 1)).unwrap();
    let over = Batch {
        take: vec![claim("key/a", &ask(2))],
        release: vec![claim("key/a", &ask(1))],
        ..Batch::default()
    };
    journal.commit(&over).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), Some(ask(2)));
    // The one who gave it away cannot give it away again.
    assert_eq!(conflict(journal, &Batch { take: vec![claim("key/a", &ask(3))], ..over }).1.len(), 1);
    assert_eq!(journal.holder("key/a").unwrap(), Some(ask(2)));
}

pub(super) fn foreign_release(journal: &mut dyn Journal) {
    begin(journal);
    journal.commit(&take("key/a", 1)).unwrap();
    journal.commit(&release("key/a", 2)).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), Some(ask(1)));
}

pub(super) fn gathered(journal: &mut dyn Journal) {
    begin(journal);
    let (one, two) = (claim("key/a", &ask(1)), claim("key/a", &ask(2)));
    // Taken and given up within one batch: nobody holds it.
    let mut batch = Batch::default();
    batch.claim(one.clone());
    batch.give_up(one.clone());
    journal.commit(&batch).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), None);
    // Given up and taken again: the last word counts.
    for last in [&one, &two] {
        let mut batch = Batch::default();
        batch.claim(one.clone());
        batch.give_up(one.clone());
        batch.claim(last.clone());
        journal.commit(&batch).unwrap();
        assert_eq!(journal.holder("key/a").unwrap(), Some(last.holder.clone()));
    }
    let mut batch = Batch::default();
    batch.give_up(two.clone());
    batch.claim(one.clone());
    batch.give_up(one.clone());
    journal.commit(&batch).unwrap();
    assert_eq!(journal.holder("key/a").unwrap(), None);
}
