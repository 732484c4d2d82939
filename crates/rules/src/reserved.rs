//! Annotations that Pods must not have: the scheduler uses one for its in-memory pods that stand for Reservations.
//!
//! A stored Pod with the annotation would be mistaken for a Reservation.

use std::collections::BTreeMap;

use headroom_domain::{
    field::{Error, Errors, Path},
    names,
};

/// Returns the faults in the annotations of a Pod; any value is a fault.
pub fn check<V>(annotations: &BTreeMap<String, V>) -> Errors {
    if !annotations.contains_key(names::RESERVE_POD) {
        return Errors::default();
    }
    let path = Path::new("annotations").child(names::RESERVE_POD);
    Error::forbidden(&path, "cannot set in annotations").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_refused_whatever_its_value() {
        for value in ["", "true", "false"] {
            let annotations = BTreeMap::from([(names::RESERVE_POD.to_owned(), value)]);
            assert_eq!(
                check(&annotations).to_string(),
                "annotations.scheduling.koordinator.sh/reserve-pod: Forbidden: cannot set in annotations"
            );
        }
        let other = BTreeMap::from([("reserve-pod".to_owned(), "")]);
        assert!(check(&other).is_empty());
    }
}
