//! Servers that are reached without the proxy of the environment: loopback servers and the entries of NO_PROXY. The
//! rules are those of Go's package `httpproxy`.

use std::net::IpAddr;

use headroom_kit::serve::Network;

/// True for `localhost` and loopback addresses.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || address(host).is_some_and(|address| address.to_canonical().is_loopback())
}

/// True if an entry of the list matches the server. Entries are `*`, networks, addresses and domains, the latter two
/// with an optional port. A malformed entry matches no server. `host` is in lower case and without brackets.
pub(super) fn is_excepted(list: &str, host: &str, port: u16) -> bool {
    let mut entries = list.split(',').map(|entry| entry.trim().to_lowercase());
    entries.any(|entry| matches(&entry, host, port))
}

fn matches(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if entry.contains('/') {
        let network: Option<Network> = entry.parse().ok();
        return network
            .zip(address(host))
            .is_some_and(|(network, address)| network.contains(address));
    }
    let (name, of_port) = match entry.rsplit_once(':') {
        // An IPv6 address without a port has several colons and no brackets.
        Some((name, "")) if !name.contains(':') => (name, None),
        Some((name, number)) if !name.contains(':') || name.ends_with(']') => (name, Some(number)),
        Some(_) | None => (entry, None),
    };
    if of_port.is_some_and(|number| number.parse() != Ok(port)) {
        return false;
    }
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if let Some(excepted) = address(name) {
        return address(host).is_some_and(|own| own.to_canonical() == excepted.to_canonical());
    }
    let name = name
        .strip_prefix('*')
        .filter(|name| name.starts_with('.'))
        .unwrap_or(name);
    match name.strip_prefix('.') {
        // A leading dot means sub-domains only.
        Some(parent) => is_below(host, parent),
        None => !name.is_empty() && (host == name || is_below(host, name)),
    }
}

fn is_below(host: &str, parent: &str) -> bool {
    let prefix = host.strip_suffix(parent);
    !parent.is_empty() && prefix.is_some_and(|prefix| prefix.ends_with('.'))
}

fn address(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("localhost", true)]
    #[case("127.8.9.1", true)]
    #[case("::1", true)]
    #[case("::ffff:127.0.0.1", true)]
    #[case("localhost.example", false)]
    #[case("10.0.0.1", false)]
    fn loopback_servers_need_no_proxy(#[case] host: &str, #[case] expected: bool) {
        assert_eq!(is_loopback(host), expected);
    }

    #[rstest]
    #[case::itself("b.c", "b.c", true)]
    #[case::sub_domain("b.c", "a.b.c", true)]
    #[case::same_ending("b.c", "ab.c", false)]
    #[case::dot_excludes_itself(".b.c", "b.c", false)]
    #[case::dot(".b.c", "a.b.c", true)]
    #[case::star_and_dot("*.b.c", "a.b.c", true)]
    #[case::star_elsewhere("*b.c", "ab.c", false)]
    #[case::upper_case("B.C", "b.c", true)]
    #[case::list("x, b.c ,y", "b.c", true)]
    #[case::list_with_all("x,*", "b.c", true)]
    #[case::port("b.c:6443", "b.c", true)]
    #[case::another_port("b.c:443", "b.c", false)]
    #[case::empty_port("b.c:", "b.c", true)]
    #[case::address("10.0.0.1", "10.0.0.1", true)]
    #[case::address_and_port("10.0.0.1:6443", "10.0.0.1", true)]
    #[case::address_and_another_port("10.0.0.1:1", "10.0.0.1", false)]
    #[case::other_address("10.0.0.1", "10.0.0.11", false)]
    #[case::v6("2001:db8::1", "2001:db8::1", true)]
    #[case::v6_in_brackets("[2001:db8::1]:6443", "2001:db8::1", true)]
    #[case::mapped("10.0.0.1", "::ffff:10.0.0.1", true)]
    #[case::network("10.0.0.0/8", "10.1.2.3", true)]
    #[case::network_outside("10.0.0.0/8", "11.1.2.3", false)]
    #[case::network_of_a_name("10.0.0.0/8", "a.b.c", false)]
    #[case::malformed_network("10.0.0.0/33", "10.0.0.0", false)]
    #[case::no_host(":6443", "b.c", false)]
    #[case::dot_only(".", "b.c", false)]
    #[case::empty("", "b.c", false)]
    #[case::empty_entries(",,", "b.c", false)]
    fn an_entry_matches_as_in_go(#[case] list: &str, #[case] host: &str, #[case] expected: bool) {
        assert_eq!(is_excepted(list, host, 6443), expected);
    }
}
