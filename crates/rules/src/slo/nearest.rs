//! Finds the known name closest to a misspelt one.

/// Maximum length of a name that counts as misspelt; bounds the cost of a comparison.
const LONGEST: usize = 64;

/// Returns the known name with the fewest differences from `name`; `None` if none is near: up to a third of the
/// letters, or only the case, may differ.
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
    fn only_misspelt_names_are_near(#[case] name: &str, #[case] expected: Option<&str>) {
        let known = ["enable", "cpuReclaimThresholdPercent", "degradeTimeMinutes"];
        assert_eq!(nearest(name, known), expected);
        assert_eq!(nearest(&name.repeat(100), known), None);
    }
}
