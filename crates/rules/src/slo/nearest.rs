//! The known name that somebody probably meant.

/// A name that is longer is no misspelt one. Bounds what a comparison costs.
const LONGEST: usize = 64;

/// The known name that differs least from `name`; `None` if none is near: a third of its letters, or its case, may differ.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let lower = name.to_lowercase();
    let distances = known.into_iter().map(|known| {
        let distance = strsim::osa_distance(&lower, &known.to_lowercase());
        (distance, known)
    });
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= name.chars().count()).then_some(known)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("cpuReclaimThresholdPercen", Some("cpuReclaimThresholdPercent"))]
    #[case("CPUReclaimTresholdPercent", Some("cpuReclaimThresholdPercent"))]
    #[case("memoryReclaimPercent", None)]
    #[case("enabled", Some("enable"))]
    #[case("e", None)]
    #[case("", None)]
    fn a_misspelt_name_is_near_and_another_is_not(#[case] name: &str, #[case] expected: Option<&str>) {
        let known = ["enable", "cpuReclaimThresholdPercent", "degradeTimeMinutes"];
        assert_eq!(nearest(name, known), expected);
        assert_eq!(nearest(&name.repeat(100), known), None);
    }
}
