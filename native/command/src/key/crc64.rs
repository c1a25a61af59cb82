//! The checksum of Redis' DUMP: CRC-64 with the polynomial of Jones, reflected, without inversion.

/// The polynomial 0xad93d23594c935a9 with its bits in reverse order.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// Bytes that are processed together.
const LANES: usize = 8;

/// `TABLES[n][byte]` is the remainder of a byte that `n` bytes of zero follow.
static TABLES: [[u64; 256]; LANES] = {
    let mut tables = [[0; 256]; LANES];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            let carry = if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            remainder = remainder >> 1 ^ carry;
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut lane = 1;
    while lane < LANES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[lane - 1][byte];
            tables[lane][byte] = before >> 8 ^ tables[0][before as usize & 0xff];
            byte += 1;
        }
        lane += 1;
    }
    tables
};

/// The checksum of bytes that follow those with the checksum `sum`; 0 at the beginning.
pub(crate) fn crc64(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<LANES>();
    let sum = words.iter().fold(sum, |sum, word| {
        let mixed = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
        let lanes = mixed.iter().zip(TABLES.iter().rev());
        lanes.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    rest.iter().fold(sum, |sum, byte| sum >> 8 ^ TABLES[0][usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_the_polynomial() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(0, b""), 0);
    }

    #[test]
    fn parts_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for at in 0..40 {
            let (first, second) = bytes.split_at(at);
            assert_eq!(crc64(crc64(0, first), second), crc64(0, &bytes));
        }
    }
}
