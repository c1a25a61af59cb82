%% Compares the records of all members: they must be the same after the same
%% entries of the log.
-module(todana_verify).
-moduledoc false.

-export([run/0, digest/0]).

-define(TIMEOUT_MS, 60_000).
-define(ATTEMPTS, 10).

-doc "The digest that all members have, or which one differs.".
-spec run() -> {ok, map()} | {error, iodata()}.
run() -> run(?ATTEMPTS).

-spec run(non_neg_integer()) -> {ok, map()} | {error, iodata()}.
run(0) ->
    {error, "the members were never at the same entry: try again with fewer "
            "writes"};
run(Left) ->
    Nodes = todana_members:known(),
    Answers = lists:zip(
        Nodes, erpc:multicall(Nodes, ?MODULE, digest, [], ?TIMEOUT_MS)
    ),
    Silent = [Node || {Node, Answer} <- Answers, element(1, Answer) =/= ok],
    Digests = [{Node, Digest} || {Node, {ok, Digest}} <- Answers],
    Indexes = lists:usort([Index || {_, {Index, _}} <- Digests]),
    case {Silent, Indexes, lists:usort([D || {_, {_, D}} <- Digests])} of
        {[_ | _], _, _} ->
            {error, [lists:join(", ", [atom_to_list(N) || N <- Silent]),
                     " does not answer"]};
        {[], [Index], [Digest]} ->
            {ok, #{
                index => Index,
                digest => integer_to_binary(Digest, 16),
                members => length(Nodes)
            }};
        {[], [_], [_, _ | _]} ->
            {error, ["the records differ: ", lists:join(", ", [
                io_lib:format("~s ~.16b", [Node, Digest])
             || {Node, {_, Digest}} <- Digests
            ])]};
        {[], _, _} ->
            timer:sleep(100),
            run(Left - 1)
    end.

-doc "The digest of this node's records, and the entry that they are at.".
-spec digest() -> {non_neg_integer(), non_neg_integer()}.
digest() ->
    Before = todana_nif:group_applied(),
    Digest = todana_nif:group_digest(),
    case todana_nif:group_applied() of
        Before -> {Before, Digest};
        _ -> digest()
    end.
