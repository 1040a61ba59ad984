//! What is there for all together, and how much of it each owner has.
//!
//! What one owner may have falls with the square of what is left for everybody: the first may take 38 % and the tenth,
//! after nine that took all they could, still 1.2 %, the hundredth 0.01 %. So the next one finds room however many came
//! before, and nobody's share has to be taken back.

use std::collections::BTreeMap;

use crate::id::Owner;

/// Of one thing that is limited: how much is taken, and by whom.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares {
    taken: usize,
    of: BTreeMap<Owner, usize>,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full<'a> {
    /// All together have so much.
    All { taken: usize },
    /// There would be room, which is kept for others.
    Share { owner: &'a Owner, has: usize, left: usize },
}

impl Shares {
    pub(super) fn add(&mut self, owner: Option<&Owner>, size: usize) {
        self.taken = self.taken.saturating_add(size);
        if let Some(owner) = owner.filter(|_| size > 0) {
            let has = self.of.entry(owner.clone()).or_default();
            *has = has.saturating_add(size);
        }
    }

    pub(super) fn take_off(&mut self, owner: Option<&Owner>, size: usize) {
        self.taken = self.taken.saturating_sub(size);
        let Some(owner) = owner else { return };
        if let Some(has) = self.of.get_mut(owner) {
            *has = has.saturating_sub(size);
            if *has == 0 {
                self.of.remove(owner);
            }
        }
    }

    pub(super) fn has(&self, owner: &Owner) -> usize {
        self.of.get(owner).copied().unwrap_or(0)
    }

    /// Whether `size` more of at most `most` may be taken by this owner, once `freed` of what it has is given back.
    pub(super) fn room<'a>(
        &self,
        owner: Option<&'a Owner>,
        (size, freed): (usize, usize),
        most: usize,
    ) -> Result<(), Full<'a>> {
        let after = self.taken.saturating_sub(freed).saturating_add(size);
        if after > most {
            return Err(Full::All { taken: self.taken });
        }
        let Some(owner) = owner else { return Ok(()) };
        let has = self.has(owner);
        let (own, left) = (has.saturating_sub(freed).saturating_add(size), most - after);
        let wide = |n: usize| u128::try_from(n).unwrap_or(u128::MAX);
        if wide(own).saturating_mul(wide(most)) > wide(left).saturating_mul(wide(left)) {
            return Err(Full::Share { owner, has, left: most.saturating_sub(self.taken) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(n: usize) -> Owner {
        Owner { name: format!("shell {n}"), since: 7 }
    }

    #[test]
    fn s7_however_many_owners_take_all_they_can_the_next_one_finds_room() {
        let (mut shares, most) = (Shares::default(), 100_000_000);
        let mut got = Vec::new();
        for n in 0..100 {
            let owner = owner(n);
            let mut has = 0;
            while shares.room(Some(&owner), (100, 0), most).is_ok() {
                shares.add(Some(&owner), 100);
                has += 100;
            }
            assert!(matches!(shares.room(Some(&owner), (100, 0), most), Err(Full::Share { .. })));
            assert_eq!(shares.room(Some(&owner), (100, 100), most), Ok(()), "in place of what it gives back");
            got.push(has);
        }
        assert!(got.is_sorted_by(|a, b| a >= b), "{got:?}");
        assert_eq!((got[0] / 1_000_000, got[9] / 100_000, got[99] / 1_000), (38, 12, 10), "{got:?}");
        // A host that has everything to itself has the rest.
        let rest = most - shares.taken;
        assert_eq!(shares.room(None, (rest, 0), most), Ok(()));
        assert!(matches!(shares.room(None, (rest + 1, 0), most), Err(Full::All { .. })));
        for n in 0..100 {
            let has = shares.of.get(&owner(n)).copied().unwrap();
            shares.take_off(Some(&owner(n)), has);
        }
        assert!(shares.taken == 0 && shares.of.is_empty());
    }
}
