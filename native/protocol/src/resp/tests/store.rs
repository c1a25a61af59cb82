use super::*;

#[test]
fn a_value_is_stored_and_read() {
    script(
        r#"
        > SET key value
        +OK
        > GET key
        $5 value
        > get key
        $5 value
        > DEL key other
        :1
        > GET key
        $-1
        > EXISTS key
        :0
        > GET
        -ERR wrong number of arguments for 'get' command
        "#,
    );
}
