%% A cut of the log at a bad record, and the words for it. Nothing is deleted:
%% what is cut off goes to `damaged' in the directory of the server.
-module(todana_log_cut).
-moduledoc false.

-export([set_aside/2, set_aside_segments/2, cut/3]).
-export([cut_segment/3, truncate/2]).
-export([where/1, loss/2, repaired/1]).

-export_type([cut/0]).

-import(todana_log_problem, [unusable/2]).

-type file() :: {file:filename(), todana_log_file:scanned()}.
-type cut() :: #{
    file := file:filename(),
    offset := non_neg_integer(),
    bytes := non_neg_integer(),
    is_torn := boolean(),
    %% The last record that stays, and those that do not, as far as readable.
    last := todana_log_file:entry() | none,
    lost := [todana_log_file:entry()],
    %% Files behind it, from the newest.
    later := [file:filename()],
    %% Later files have all that is cut off.
    is_superseded := boolean()
}.
-type problem() :: todana_log_problem:problem().

-doc "Without the files that segment files have replaced: `todana_log_cover`.".
-spec set_aside([file()], file:filename()) ->
    {ok, [file()]} | {error, problem()}.
set_aside(Files, Server) ->
    case todana_log_cover:superseded(Files, Server) of
        [] ->
            {ok, Files};
        Superseded ->
            Kept = filename:join(Server, "damaged"),
            maybe
                ok ?= unusable(Kept, filelib:ensure_path(Kept)),
                {ok, Moved} ?= move(Superseded, Kept, stamp(), []),
                logger:warning(
                    "todana: a file of the log is not whole, as after a sync "
                    "that failed; segment files have its entries, so no "
                    "confirmed write is lost; it is kept as ~ts",
                    [lists:join(", ", Moved)]
                ),
                {ok, [File || {Name, _} = File <- Files,
                              not lists:member(Name, Superseded)]}
            end
    end.

-doc "Without the damaged segments whose entries the snapshot has.".
-spec set_aside_segments([file()], file:filename()) -> ok | {error, problem()}.
set_aside_segments(Files, Server) ->
    case todana_log_missing:unneeded(Files, Server) of
        [] ->
            ok;
        Segments ->
            Kept = filename:join(Server, "damaged"),
            maybe
                ok ?= unusable(Kept, filelib:ensure_path(Kept)),
                {ok, Moved} ?= move(Segments, Kept, stamp(), []),
                logger:warning(
                    "todana: a segment file of the log is damaged; the "
                    "snapshot has its entries, so nothing is lost; it is kept "
                    "as ~ts", [lists:join(", ", Moved)]
                )
            end
    end.

-doc """
Cuts off a part of the log, and keeps that, or the whole file, in `damaged`. The
later files go first: a log that ends early is whole, one with a gap is not.
""".
-spec cut(cut(), binary(), tail | whole) ->
    {ok, [file:filename()]} | {error, problem()}.
cut(#{file := File, offset := Offset, later := Later}, UId, What) ->
    Directory = filename:dirname(File),
    Kept = filename:join([Directory, binary_to_list(UId), "damaged"]),
    Stamp = stamp(),
    maybe
        ok ?= unusable(Kept, filelib:ensure_path(Kept)),
        {ok, Moved} ?= move(Later, Kept, Stamp, []),
        {From, Name} = case What of
            tail -> {Offset, [filename:basename(File), ".from-",
                              integer_to_list(Offset), Stamp]};
            whole -> {0, [filename:basename(File), Stamp]}
        end,
        Copy = filename:join(Kept, text("~ts", [Name])),
        ok ?= unusable(File, copy(File, From, Copy)),
        ok ?= todana_ra_meta:forget_applied(Directory, UId),
        ok ?= unusable(File, truncate(File, Offset)),
        {ok, [Copy | Moved]}
    end.

-doc """
Lets a segment file have only these entries; without any, it goes. It is kept in
`damaged` as it was.
""".
-spec cut_segment(file:filename(), [non_neg_integer()], file:filename()) ->
    {ok, [file:filename()]} | {error, problem()}.
cut_segment(File, Entries, Server) ->
    Kept = filename:join(Server, "damaged"),
    Stamp = stamp(),
    maybe
        ok ?= unusable(Kept, filelib:ensure_path(Kept)),
        case Entries of
            [] -> move([File], Kept, Stamp, []);
            [_ | _] -> rewrite(File, Entries, Kept, Stamp)
        end
    end.

%% The new file first: the disk may be full.
-spec rewrite(
    file:filename(), [non_neg_integer()], file:filename(), iodata()
) -> {ok, [file:filename()]} | {error, problem()}.
rewrite(File, Entries, Kept, Stamp) ->
    Copy = filename:join(
        Kept, text("~ts~ts", [filename:basename(File), Stamp])
    ),
    New = File ++ ".new",
    Result = maybe
        {ok, Bytes} ?= todana_log_segment:bytes(File, Entries),
        ok ?= unusable(New, file:write_file(New, Bytes, [raw, sync])),
        ok ?= unusable(Copy, keep(File, Copy)),
        ok ?= unusable(File, file:rename(New, File)),
        Directory = filename:dirname(File),
        ok ?= unusable(Directory, todana_small_file:sync_directory(Directory)),
        ok ?= unusable(Kept, todana_small_file:sync_directory(Kept)),
        {ok, [Copy]}
    end,
    _ = file:delete(New, [raw]),
    Result.

%% A second name; not every file system has that.
-spec keep(file:filename(), file:filename()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
keep(File, Copy) ->
    case file:make_link(File, Copy) of
        ok -> ok;
        {error, _} -> copy(File, 0, Copy)
    end.

-spec move([file:filename()], file:filename(), iodata(), [file:filename()]) ->
    {ok, [file:filename()]} | {error, problem()}.
move([], _Kept, _Stamp, Moved) ->
    {ok, Moved};
move([File | Files], Kept, Stamp, Moved) ->
    To = filename:join(Kept, text("~ts~ts", [filename:basename(File), Stamp])),
    maybe
        ok ?= unusable(File, file:rename(File, To)),
        ok ?= unusable(Kept, todana_small_file:sync_directory(Kept)),
        Directory = filename:dirname(File),
        ok ?= unusable(Directory, todana_small_file:sync_directory(Directory)),
        move(Files, Kept, Stamp, [To | Moved])
    end.

-spec copy(file:filename(), non_neg_integer(), file:filename()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
copy(File, From, To) ->
    maybe
        {ok, <<_:From/binary, Bytes/binary>>} ?= file:read_file(File, [raw]),
        todana_small_file:replace(To, Bytes)
    end.

-doc "Ends a file there. It is on disk when this returns.".
-spec truncate(file:filename(), non_neg_integer()) ->
    ok | {error, file:posix() | badarg | terminated}.
truncate(File, Offset) ->
    maybe
        {ok, Fd} ?= file:open(File, [read, write, raw]),
        {ok, Offset} ?= file:position(Fd, Offset),
        Result = maybe
            ok ?= file:truncate(Fd),
            file:sync(Fd)
        end,
        _ = file:close(Fd),
        Result
    end.

-spec stamp() -> iodata().
stamp() -> [$-, integer_to_list(erlang:system_time(millisecond))].

%% ----------------------------------------------------------------- words ---

-doc "The file, and its bytes before and after the cut.".
-spec where(cut()) -> string().
where(#{file := File, offset := Offset, bytes := Bytes, later := Later}) ->
    Also = case Later of
        [] -> "";
        [_ | _] -> text(", and ~b later files are taken away", [length(Later)])
    end,
    text("~ts is cut from ~b to ~b bytes~ts", [File, Bytes, Offset, Also]).

-doc "The loss by a cut at a start.".
-spec loss(todana_data_dir:durability(), cut()) -> string().
loss(_Durability, #{is_superseded := true}) ->
    "the next file has its entries";
loss(always, _Cut) ->
    "no confirmed write is lost";
loss(everysec, #{lost := []}) ->
    "writes of the last second may be lost";
loss(everysec, #{lost := Lost}) ->
    Times = [Ms || #{time_ms := Ms} <- Lost],
    SpanMs = case Times of
        [] -> 0;
        _ -> lists:max(Times) - lists:min(Times)
    end,
    text("writes of the last ~b ms or a little more are lost", [SpanMs]).

-doc "The loss by a cut on request.".
-spec repaired(cut()) -> string().
repaired(#{is_superseded := true}) ->
    "Nothing is lost: the next file has the entries";
repaired(#{last := Last, lost := Lost}) ->
    Kept = case Last of
        none -> "No entry of this file stays";
        #{index := Index} -> text("The log now ends with entry ~b~ts",
                                  [Index, time(Last)])
    end,
    case Lost of
        [] ->
            text("~ts. The damaged entry is lost, and none could be read "
                 "behind it. If it was confirmed, a confirmed write is lost",
                 [Kept]);
        _ ->
            #{index := End} = Final = lists:last(Lost),
            text("~ts. Lost are the damaged entry and those behind it up to "
                 "entry ~b~ts, with all confirmed writes in them",
                 [Kept, End, time(Final)])
    end.

-spec time(todana_log_file:entry()) -> string().
time(#{time_ms := Ms}) ->
    Options = [{unit, millisecond}, {offset, "Z"}],
    text(" of ~ts", [calendar:system_time_to_rfc3339(Ms, Options)]);
time(#{}) ->
    "".

-spec text(io:format(), [term()]) -> string().
text(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
