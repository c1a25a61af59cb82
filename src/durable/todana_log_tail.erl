%% What a power failure has left of the end of the log, before Ra reads it.
%%
%% Ra accepts a record that fails its checksum if it is the last one of a file,
%% and otherwise does not start. After a power failure that is too strict: a
%% disk writes the sectors of one write in any order, so some records of the
%% last write may be there and an earlier one not. It is too lenient as well: it
%% drops a last record that was confirmed, and damaged later.
%%
%% When is it safe to cut the log at the first bad record?
%%
%% `always'. The log is written by one process in turns: it writes the records
%% that it has got to the end of the newest file, calls fdatasync, and only
%% then reports the records as written, after which they are applied and
%% confirmed. A new file is begun after the fdatasync of the old one. So the
%% power can leave only one write incomplete: the last one. None of its records
%% is confirmed, and it reaches to the end of the last file that has records.
%% If the first bad record was torn by the power, then, it belongs to that write
%% and so does all behind it, and cutting there loses nothing that was
%% confirmed. If the medium or a program damaged it, cutting may lose confirmed
%% writes. Two things tell a torn record:
%%
%% - A part of it was never written. The file grows with each write, so a sector
%%   that is missing reads as zeros, or the file ends within the record. A
%%   flipped bit or a strange byte does not look like that.
%% - At most as many batches are behind it as are on their way at once: the
%%   batch after those is sent when the first of them is confirmed. A batch that
%%   was sent again, since it took long, counts once. With more of them behind
%%   it the bad record was confirmed, whatever it looks like.
%%
%% Both must hold. What remains is a record with a sector of zeros in its own
%% data that is damaged by something else within the last four batches.
%%
%% After an fdatasync that failed there are later files, too, and the earlier
%% one may only end too early, without a bad record. Segment files have what is
%% missing, see todana_log_cover, or nothing behind it is confirmed, and the
%% batches are counted as above.
%%
%% `everysec'. The files are synchronized once a second, so all writes since
%% then may be torn anywhere, in the newest file and in those before it.
%% Confirmed writes of that second may be lost, and Ra needs a log without gaps:
%% so it is cut at the first bad record if a part of it was never written, and
%% if the readable records behind it are of one short time. Later files go too.
%%
%% In both, a bad record is of no interest if the next file with records begins
%% at its index or an earlier one: the records were written again there, after
%% the log had failed. With `always' the same holds for a record that an earlier
%% file ends within: the length of a file was on disk before it had a successor,
%% so the record was never written to its end.
%%
%% All else is refused, with the file and the offset. `repair' then cuts at the
%% first bad record because a person asked for it.
-module(todana_log_tail).
-moduledoc false.

-export([mend/3, repair/3, describe/1]).

-export_type([problem/0]).

%% With `everysec': between the first and the last readable record behind a torn
%% one. A second, and what the fdatasync may take that then begins.
-define(UNSYNCED_MS_MAX, 10_000).

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
-type problem() ::
    {damaged, file:filename(), Offset :: non_neg_integer(), Why :: iodata()}
    %% Entries between its end and the next file are missing.
    | {ended, file:filename(), Why :: iodata()}
    | {unusable, file:filename(), Why :: iodata()}.

-doc """
Cuts off what a power failure has torn, in the files of a log that was written
with this durability. The part behind the cut is kept in `damaged`.
""".
-spec mend(file:filename(), binary(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
mend(Directory, UId, Durability) ->
    maybe
        {ok, Scanned} ?= scan(Directory, UId),
        {ok, Files} ?= set_aside(Scanned, Directory, UId),
        {cut, Cut} ?= first_damage(Files, Durability),
        ok ?= judge(Durability, Cut),
        {ok, Copies} ?= cut(Cut, UId, tail),
        logger:warning(
            "todana: the last write to the log is not whole, as after a power "
            "failure: ~ts; ~ts; the rest is kept in ~ts",
            [where(Cut), loss(Durability, Cut), lists:join(", ", Copies)]
        ),
        mend(Directory, UId, Durability)
    else
        undamaged -> ok;
        {error, Problem} -> {error, Problem}
    end.

-doc """
Cuts the log at its first bad record, whatever the cause. Returns what was done,
as sentences.
""".
-spec repair(file:filename(), binary(), todana_data_dir:durability()) ->
    undamaged | {ok, iolist()} | {error, problem()}.
repair(Directory, UId, Durability) ->
    maybe
        {ok, Files} ?= scan(Directory, UId),
        {cut, Cut} ?= first_damage(Files, Durability),
        {ok, Copies} ?= cut(Cut, UId, whole),
        {ok, [where(Cut), ".\n", repaired(Cut), ".\n"
              "The files as they were: ", lists:join(", ", Copies), "\n"]}
    end.

-doc "A problem as a sentence.".
-spec describe(problem()) -> string().
describe({damaged, File, Offset, Why}) ->
    text("~ts: the record at byte ~b is damaged, ~ts: restore a backup, or "
         "see `bin/todana repair`, which cuts the log there",
         [File, Offset, Why]);
describe({ended, File, Why}) ->
    text("~ts: entries are missing behind its end, ~ts: restore a backup, or "
         "see `bin/todana repair`, which ends the log there", [File, Why]);
describe({unusable, File, Why}) ->
    text("~ts cannot be used: ~ts", [File, Why]).

%% ------------------------------------------------------------------ find ---

-spec scan(file:filename(), binary()) -> {ok, [file()]} | {error, problem()}.
scan(Directory, UId) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            Files = [
                filename:join(Directory, Name)
             || Name <- lists:sort(Names), filename:extension(Name) =:= ".wal"
            ],
            scan_each(Files, UId, []);
        {error, enoent} ->
            {ok, []};
        {error, Reason} ->
            {error, {unusable, Directory, file:format_error(Reason)}}
    end.

-spec scan_each([file:filename()], binary(), [file()]) ->
    {ok, [file()]} | {error, problem()}.
scan_each([], _UId, Scanned) ->
    {ok, lists:reverse(Scanned)};
scan_each([File | Files], UId, Scanned) ->
    case todana_log_file:scan(File, UId) of
        {ok, Found} ->
            scan_each(Files, UId, [{File, Found} | Scanned]);
        {error, format} ->
            {error, {unusable, File, "is not a file of the log"}};
        {error, Reason} ->
            {error, {unusable, File, file:format_error(Reason)}}
    end.

%% What a cut at the first damage takes away.
-spec first_damage([file()], todana_data_dir:durability()) ->
    {cut, cut()} | undamaged.
first_damage([], _Durability) ->
    undamaged;
first_damage([{File, #{damage := none} = Scanned} | Files], Durability) ->
    case {Scanned, todana_log_cover:lowest(Files)} of
        {#{last := #{index := Last}}, [Next]} when Next > Last + 1 ->
            {cut, gap(File, Scanned, Files)};
        _ ->
            first_damage(Files, Durability)
    end;
first_damage([{File, #{damage := Damage} = Scanned} | Files], Durability) ->
    #{bytes := Bytes, last := Last} = Scanned,
    #{
        offset := Offset, is_torn := IsTorn, is_short := IsShort,
        behind := Behind
    } = Damage,
    Cut = #{
        file => File, offset => Offset, bytes => Bytes, is_torn => IsTorn,
        last => Last, lost => Behind, later => [],
        is_superseded => false
    },
    case {Last, [First || {_, #{first := #{} = First}} <- Files]} of
        {#{index := Index}, [#{index := Next} | _]} when Next =< Index + 1 ->
            {cut, Cut#{lost := [], is_superseded := true}};
        {_, []} ->
            {cut, Cut};
        {#{}, [_ | _]} when IsShort, Durability =:= always ->
            {cut, Cut};
        {_, _} ->
            {cut, Cut#{
                lost := Behind ++ lists:append([entries(S) || {_, S} <- Files]),
                later := lists:reverse([Name || {Name, _} <- Files])
            }}
    end.

%% A file that ends before the next one begins.
-spec gap(file:filename(), todana_log_file:scanned(), [file()]) -> cut().
gap(File, #{bytes := Bytes, last := Last}, Files) ->
    #{
        file => File, offset => Bytes, bytes => Bytes, is_torn => true,
        last => Last, lost => lists:append([entries(S) || {_, S} <- Files]),
        later => lists:reverse([Name || {Name, _} <- Files]),
        is_superseded => false
    }.

-spec entries(todana_log_file:scanned()) -> [todana_log_file:entry()].
entries(#{first := First, last := Last, damage := Damage}) ->
    [Entry || Entry <- [First, Last], Entry =/= none] ++
        case Damage of
            none -> [];
            #{behind := Behind} -> Behind
        end.

%% ------------------------------------------------------------- set aside ---

%% Without the files that segment files have replaced: see todana_log_cover.
-spec set_aside([file()], file:filename(), binary()) ->
    {ok, [file()]} | {error, problem()}.
set_aside(Files, Directory, UId) ->
    Server = filename:join(Directory, binary_to_list(UId)),
    case todana_log_cover:superseded(Files, Server) of
        [] ->
            {ok, Files};
        Superseded ->
            Kept = filename:join(Server, "damaged"),
            maybe
                ok ?= usable(Kept, filelib:ensure_path(Kept)),
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

-spec stamp() -> iodata().
stamp() -> [$-, integer_to_list(erlang:system_time(millisecond))].

%% ----------------------------------------------------------------- judge ---

-spec judge(todana_data_dir:durability(), cut()) -> ok | {error, problem()}.
judge(Durability, #{file := File, offset := Offset, bytes := Bytes} = Cut) ->
    case reason_against(Durability, Cut) of
        none -> ok;
        Why when Offset < Bytes -> {error, {damaged, File, Offset, Why}};
        Why -> {error, {ended, File, Why}}
    end.

-spec reason_against(todana_data_dir:durability(), cut()) -> none | iodata().
reason_against(_Durability, #{is_superseded := true}) ->
    none;
reason_against(_Durability, #{is_torn := false}) ->
    "and not by a power failure";
reason_against(always, #{lost := Lost, later := Later}) ->
    Sequences = lists:usort([S || #{sequence := S} <- Lost]),
    Batches = case Later of
        [] -> length(Sequences);
        %% Of a later file, only its ends are known here.
        [_ | _] when Sequences =:= [] -> 0;
        [_ | _] -> lists:last(Sequences) - hd(Sequences) + 1
    end,
    case Batches =< todana_batcher:in_flight_max() of
        true -> none;
        false -> io_lib:format("and ~b later batches are not", [Batches])
    end;
reason_against(everysec, #{lost := Lost}) ->
    Times = [Ms || #{time_ms := Ms} <- Lost],
    case Times =:= [] orelse lists:max(Times) - lists:min(Times) of
        true -> none;
        SpanMs when SpanMs =< ?UNSYNCED_MS_MAX -> none;
        SpanMs -> io_lib:format("and later ones of ~b ms are not", [SpanMs])
    end.

%% ------------------------------------------------------------------- cut ---

%% The later files go first: a log that ends early is whole, one with a gap is
%% not.
-spec cut(cut(), binary(), tail | whole) ->
    {ok, [file:filename()]} | {error, problem()}.
cut(#{file := File, offset := Offset, later := Later}, UId, What) ->
    Directory = filename:dirname(File),
    Kept = filename:join([Directory, binary_to_list(UId), "damaged"]),
    Stamp = stamp(),
    maybe
        ok ?= usable(Kept, filelib:ensure_path(Kept)),
        {ok, Moved} ?= move(Later, Kept, Stamp, []),
        {From, Name} = case What of
            tail -> {Offset, [filename:basename(File), ".from-",
                              integer_to_list(Offset), Stamp]};
            whole -> {0, [filename:basename(File), Stamp]}
        end,
        Copy = filename:join(Kept, text("~ts", [Name])),
        ok ?= usable(File, copy(File, From, Copy)),
        ok ?= todana_ra_files:forget_applied(Directory, UId),
        ok ?= usable(File, truncate(File, Offset)),
        {ok, [Copy | Moved]}
    end.

-spec move([file:filename()], file:filename(), iodata(), [file:filename()]) ->
    {ok, [file:filename()]} | {error, problem()}.
move([], _Kept, _Stamp, Moved) ->
    {ok, Moved};
move([File | Files], Kept, Stamp, Moved) ->
    To = filename:join(Kept, text("~ts~ts", [filename:basename(File), Stamp])),
    maybe
        ok ?= usable(File, file:rename(File, To)),
        ok ?= usable(Kept, todana_data_dir:sync_directory(Kept)),
        Directory = filename:dirname(File),
        ok ?= usable(Directory, todana_data_dir:sync_directory(Directory)),
        move(Files, Kept, Stamp, [To | Moved])
    end.

-spec copy(file:filename(), non_neg_integer(), file:filename()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
copy(File, From, To) ->
    maybe
        {ok, <<_:From/binary, Bytes/binary>>} ?= file:read_file(File, [raw]),
        todana_data_dir:write_synced(To, Bytes)
    end.

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

-spec usable(file:filename(), ok | {error, term()}) ->
    ok | {error, problem()}.
usable(_File, ok) ->
    ok;
usable(File, {error, Reason}) ->
    {error, {unusable, File, file:format_error(Reason)}}.

%% ----------------------------------------------------------------- words ---

-spec where(cut()) -> string().
where(#{file := File, offset := Offset, bytes := Bytes, later := Later}) ->
    Also = case Later of
        [] -> "";
        [_ | _] -> text(", and ~b later files are taken away", [length(Later)])
    end,
    text("~ts is cut from ~b to ~b bytes~ts", [File, Bytes, Offset, Also]).

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
