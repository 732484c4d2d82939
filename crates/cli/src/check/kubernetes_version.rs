//! [`KubernetesVersion`]: major and minor version of an API server, and of a kernel release; provider of a hosted one.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion {
    pub major: u32,
    pub minor: u32,
}

impl KubernetesVersion {
    /// Parses a version such as `v1.36.3` or `1.36+`; `None` without two numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let [major, minor] = two_numbers(text.trim_start_matches('v'))?;
        Some(Self { major, minor })
    }
}

/// Parts of the versions of hosted API servers: EKS and GKE. AKS has none.
const HOSTED_VERSIONS: [&str; 2] = ["-eks-", "-gke."];

/// True for an API server that EKS or GKE runs, by its version such as `v1.33.1-eks-c39b1d0`.
pub fn is_hosted(version: &str) -> bool {
    HOSTED_VERSIONS.iter().any(|part| version.contains(part))
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor } = self;
        write!(f, "{major}.{minor}")
    }
}

/// First two numbers of a version or of a kernel release, such as `6.1.0-13-amd64`.
pub fn two_numbers(text: &str) -> Option<[u32; 2]> {
    let mut parts = text.splitn(3, '.');
    let (first, second) = (parts.next()?, parts.next()?);
    let digits = second.find(|digit: char| !digit.is_ascii_digit());
    let second = second.get(..digits.unwrap_or(second.len()))?;
    Some([first.parse().ok()?, second.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("v1.36.3", Some([1, 36]))]
    #[case("1.30+", Some([1, 30]))]
    #[case("v1.29.5-gke.100", Some([1, 29]))]
    #[case("6.1.0-13-amd64", Some([6, 1]))]
    #[case("5.15", Some([5, 15]))]
    #[case("6", None)]
    #[case("", None)]
    #[case("a.b", None)]
    #[case("1.+", None)]
    fn the_first_two_numbers_count(#[case] text: &str, #[case] expected: Option<[u32; 2]>) {
        assert_eq!(two_numbers(text.trim_start_matches('v')), expected);
        let version = KubernetesVersion::parse(text);
        assert_eq!(version.map(|version| [version.major, version.minor]), expected);
    }

    #[rstest]
    #[case("v1.36.3", false)]
    #[case("v1.35.2+k3s1", false)]
    #[case("v1.33.1-eks-c39b1d0", true)]
    #[case("v1.34.1-gke.1293000", true)]
    fn hosted_api_servers_are_recognized(#[case] version: &str, #[case] expected: bool) {
        assert_eq!(is_hosted(version), expected);
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let version = |text| KubernetesVersion::parse(text).unwrap();
        assert!(version("1.9.0") < version("1.30.0") && version("1.36.1") > version("1.35.9"));
    }
}
