use askd_journal::conformance;

use crate::place::{Place, open};

#[test]
fn sqlite_keeps_the_contract() {
    let place = Place::new();
    let mut n = 0;
    conformance::all(|| {
        n += 1;
        Box::new(open(&place.dir().join(format!("{n}.db"))).unwrap())
    });
}
