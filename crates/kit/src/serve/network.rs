//! [`Network`]: an IP address or a network in CIDR notation.

use std::{net::IpAddr, str::FromStr};

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Number of leading bits of the address that belong to the network.
    prefix: u8,
}

/// Text that is neither an IP address nor a network.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an IP address or a network such as 10.0.0.0/24")]
pub struct NetworkError(String);

impl Network {
    /// True if the address is in this network. IPv4 addresses and their IPv4-mapped IPv6 form are equal.
    pub fn contains(&self, address: IpAddr) -> bool {
        let leading = |bits: u128, length: u8| {
            let rest = u32::from(length.saturating_sub(self.prefix));
            bits.checked_shr(rest).unwrap_or_default()
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                leading(own.to_bits().into(), 32) == leading(other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                leading(own.to_bits(), 128) == leading(other.to_bits(), 128)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = || NetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_malformed| refuse())?;
        let length = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_malformed| refuse())?,
            None => length,
        };
        if prefix > length {
            return Err(refuse());
        }
        Ok(Self { address, prefix })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.0.0.1", "10.0.0.1", true)]
    #[case("10.0.0.1", "10.0.0.2", false)]
    #[case("10.0.0.0/24", "10.0.0.255", true)]
    #[case("10.0.0.0/24", "::ffff:10.0.0.9", true)]
    #[case("10.0.0.0/24", "10.0.1.0", false)]
    #[case("0.0.0.0/0", "192.0.2.1", true)]
    #[case("0.0.0.0/0", "2001:db8::1", false)]
    #[case("2001:db8::/32", "2001:db8:1::1", true)]
    #[case("::/0", "2001:db8:1::1", true)]
    #[case("2001:db8::1", "2001:db8::2", false)]
    fn network_contains_the_addresses_with_its_prefix(
        #[case] network: &str,
        #[case] address: &str,
        #[case] expected: bool,
    ) {
        let network: Network = network.parse().unwrap();
        assert_eq!(network.contains(address.parse().unwrap()), expected);
    }

    #[rstest]
    #[case("")]
    #[case("localhost")]
    #[case("10.0.0.0/33")]
    #[case("10.0.0.0/")]
    #[case("2001:db8::/129")]
    fn text_that_is_no_network_is_refused(#[case] text: &str) {
        let error = text.parse::<Network>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{text:?} is not ")), "{error}");
    }
}
