//! [`ReleaseVersion`] and [`ReplicaVersion`]: versions of programs, parsed from a replica's answer.

use std::{fmt, str::FromStr};

use super::{WireError, name};
use crate::v1alpha1 as wire;

/// Version of Headroom, such as `0.2.0-rc.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseVersion {
    /// First number; programs with different first numbers may be incompatible.
    pub major: u64,
    /// Second number of the version.
    pub minor: u64,
    text: String,
}

/// Name of a replica with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaVersion {
    /// Name of the replica, usually its pod.
    pub replica: String,
    /// Version of the replica's program.
    pub version: ReleaseVersion,
}

/// The text is not a version of three numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version such as 0.1.0")]
pub struct VersionError(String);

impl FromStr for ReleaseVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError(text.to_owned());
        let release = text.split(['-', '+']).next().unwrap_or_default();
        let numbers = release.split('.').map(str::parse::<u64>);
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().map_err(|_invalid| error())?;
        match *numbers.as_slice() {
            [major, minor, _patch] => Ok(Self {
                major,
                minor,
                text: text.to_owned(),
            }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<wire::GetInstallationResponse> for ReplicaVersion {
    type Error = WireError;

    fn try_from(answer: wire::GetInstallationResponse) -> Result<Self, WireError> {
        let wire::GetInstallationResponse { replica, version, .. } = answer;
        let version = name("version", version)?;
        let parsed = version.parse::<ReleaseVersion>();
        Ok(Self {
            replica: name("replica", replica)?,
            version: parsed.map_err(|error| WireError::new("version", error.to_string()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_three_numbers() {
        for (text, numbers) in [
            ("0.1.0", (0, 1)),
            ("2.10.3-rc.1", (2, 10)),
            ("1.2.3+build", (1, 2)),
        ] {
            let version: ReleaseVersion = text.parse().unwrap();
            assert_eq!((version.major, version.minor), numbers);
            assert_eq!(version.to_string(), text);
        }
        for text in ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.-2.3", "1.2.x"] {
            assert!(text.parse::<ReleaseVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_invalid_version_is_rejected_by_field() {
        let answer = |replica: &str, version: &str| {
            ReplicaVersion::try_from(wire::GetInstallationResponse {
                replica: replica.to_owned(),
                version: version.to_owned(),
                ..wire::GetInstallationResponse::default()
            })
        };
        assert!(answer("webhook-0", "0.1.0").is_ok());
        for (replica, version, field) in [
            ("", "0.1.0", "replica"),
            ("a", "", "version"),
            ("a", "new\u{1b}[2J", "version"),
            ("a", "one", "version"),
        ] {
            assert_eq!(answer(replica, version).unwrap_err().field, field);
        }
    }
}
